"""jupyter_kernel_test, the ecosystem's own suite: all of it, nothing skipped."""
import sys
import unittest

sys.path.insert(0, "tests/support")
import kernel

try:
    import jupyter_kernel_test
except ImportError as e:
    print(f"skipped: {e} (Debian: python3-jupyter-kernel-test)")
    sys.exit(77)


class Conformance(jupyter_kernel_test.KernelTests):
    kernel_name = "dlsh"
    language_name = "dlsh"
    file_extension = ".dlsh"
    code_hello_world = 'print("hello, world")'
    code_stderr = 'print("oh", err=true)'
    completion_samples = [{"text": "cross_en", "matches": {"cross_entropy"}}, {"text": "checkp", "matches": {"checkpoint", "checkpoint_sequential"}},
                          {"text": "sum(zeros(2), keep", "matches": {"keepdim="}}]
    complete_code_samples = ["1+1", "x = [1,\n 2]", "for i in range(3) { print(i) }", "net m { linear 3 }", "# only a comment"]
    incomplete_code_samples = ["x = [1,", "for i in range(3) {", "1 +", "net m {\n linear 3 ->"]
    invalid_code_samples = ["x = )", "}", "1 2 3 4 5"]
    code_page_something = "help sum"
    code_generate_error = "1 / zzz"
    code_execute_result = [{"code": "6*7", "result": "42"}, {"code": "[1, 2]", "result": "[1, 2]"},
                           {"code": "record(a=1).a + 1", "result": "2"},
                           {"code": "zeros(2)", "result": "tensor([0., 0.], f32[2])"}]
    code_display_data = [{"code": "[3, 4]\n5", "mime": "application/json"}, {"code": "img zeros(4, 4)", "mime": "image/png"}]
    supported_history_operations = ("tail", "range", "search")
    code_history_pattern = "6?7*"
    code_inspect_sample = "cross_entropy"
    code_clear_output = "clear"


if __name__ == "__main__":
    kernel.install()
    result = unittest.TextTestRunner(verbosity=2).run(unittest.defaultTestLoader.loadTestsFromTestCase(Conformance))
    if not result.wasSuccessful() or result.testsRun < 12 or result.skipped:
        sys.exit(f"{result.testsRun} run, {len(result.skipped)} skipped")
