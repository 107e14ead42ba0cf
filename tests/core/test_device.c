/* Devices in the public interface, with a stand-in in the CPU's memory: names, operands on different devices, missing
 * memory, a lost device. */
#include "support/fake_device.h"

#include "autograd/tape.h"
#include "dlcore/all.h"

static void expect(dl_status got, dl_status want, const char *part) {
    if (got != want) fail_msg("status %d, not %d: %s", (int)got, (int)want, dl_errmsg());
    if (!strstr(dl_errmsg(), part)) fail_msg("'%s' is not in: %s", part, dl_errmsg());
    dl_error_clear();
}

static dl_status code_of(dl_tensor *t) {
    assert_null(t);
    return dl_failed();
}

static void names(void **state) {
    (void)state;
    int d = -1;
    ok(dl_device_parse("cpu", &d));
    assert_int_equal(d, 0);
    ok(dl_device_parse("cuda", &d));
    assert_int_equal(d, FAKE);
    ok(dl_device_parse("cuda:0", &d));
    assert_int_equal(d, FAKE);
    assert_int_equal(dl_device_count(), 2);
    assert_string_equal(dl_device_missing(), "");
    expect(dl_device_parse("cuda:1", &d), DL_ERR_DEVICE, "there is no device cuda:1: this machine has cuda:0");
    static const char *const wrong[] = {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda1", "cuda:99999"};
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect(dl_device_parse(wrong[i], &d), DL_ERR_DEVICE, "no device is called");
    expect(code_of(dl_tensor_zeros(1, SHAPE(3), DL_F32, 7)), DL_ERR_DEVICE, "there is no device cuda:6");
    assert_int_equal(d, FAKE);
}

static void operands_apart(void **state) {
    (void)state;
    dl_tensor *a = must(dl_tensor_full(1, SHAPE(3), DL_F32, 0, 1)),
              *b = must(dl_tensor_full(1, SHAPE(3), DL_F32, FAKE, 2));
    dl_tensor *two = dl_scalar_f(2), *p = must(dl_mul(b, two)), *q = must(dl_mul(two, b));
    expect(code_of(dl_add(a, b)), DL_ERR_DEVICE, "operands live on different devices, cpu and cuda:0");
    expect(code_of(dl_cat((dl_tensor *[]){b, b, a}, 3, 0)), DL_ERR_DEVICE, "cuda:0 and cpu");
    assert_int_equal(dl_device_of(p), FAKE);
    double *x = values(p), *y = values(q);
    assert_true(x[2] == 4 && y[0] == 4);
    free(x), free(y);
    dl_unref(a), dl_unref(b), dl_unref(two), dl_unref(p), dl_unref(q);
}

/* A refused allocation leaks nothing, and smaller ones still work. */
static void no_room(void **state) {
    (void)state;
    dl_tensor *a = leaf(must(dl_tensor_full(1, SHAPE(1000), DL_F32, FAKE, 1)));
    size_t before = fake.used;
    fake.room = fake.used + 6000;
    expect(code_of(dl_tensor_empty(1, SHAPE(10000), DL_F32, FAKE)), DL_ERR_MEMORY, "no room for 40000 bytes");
    dl_tensor *b = must(dl_add(a, a));
    expect(code_of(dl_add(b, a)), DL_ERR_MEMORY, "no room");
    dl_unref(b);
    assert_int_equal(fake.used, before);
    fake.room = 0;
    dl_unref(a);
}

/* Tensors of a lost device can be released, and other devices still work. */
static void lost(void **state) {
    (void)state;
    dl_tensor *a = must(dl_tensor_full(1, SHAPE(30000), DL_F32, FAKE, 1)),
              *c = must(dl_tensor_full(1, SHAPE(3), DL_F32, 0, 1));
    dl_device_memory m;
    double v;
    fake.lost = true;
    expect(code_of(dl_add(a, a)), DL_ERR_DEVICE, "the device is lost");
    expect(code_of(dl_to_device(a, 0)), DL_ERR_DEVICE, "the device is lost");
    expect(code_of(dl_to_device(c, FAKE)), DL_ERR_DEVICE, "the device is lost");
    expect(dl_item_f(a, &v), DL_ERR_SHAPE, "not a single number");
    expect(dl_device_memory_get(FAKE, &m), DL_ERR_DEVICE, "the device is lost");
    ok(dl_device_memory_get(0, &m));
    dl_tensor *d = must(dl_add(c, c));
    dl_unref(a), dl_unref(c), dl_unref(d);
    fake.lost = false;
    assert_int_equal(fake.used, 0);
}

static void default_device(void **state) {
    (void)state;
    assert_int_equal(dl_device_default_get(), 0);
    ok(dl_device_default_set(FAKE));
    expect(dl_device_default_set(4), DL_ERR_DEVICE, "there is no device cuda:3");
    assert_int_equal(dl_device_default_get(), FAKE);
    ok(dl_device_default_set(0));
}

/* What the device prefers and supports decides for layouts and joined rows. */
static void answers(void **state) {
    (void)state;
    dl_tensor *x = leaf(must(dl_tensor_full(4, SHAPE(2, 4, 6, 6), DL_F64, FAKE, 1))),
              *w = must(dl_tensor_full(4, SHAPE(3, 4, 3, 3), DL_F64, FAKE, 1));
    dl_module *m = dl_net_parse("conv 3 k=3 -> relu -> maxpool 2 -> relu -> maxpool 2");
    ok(dl_module_build(m, 4, dl_shape(x), DL_F32, FAKE));
    ok(dl_module_to(m, DL_F64, -1));
    for (int i = 0; i < 2; i++) {
        fake.joins_nothing = i, fake.layout = i ? DL_LAYOUT_CHANNELS_LAST : DL_LAYOUT_OF_INPUT;
        dl_tensor *y = must(dl_conv2d(x, w, NULL, NULL, 0, NULL, 0, NULL, 0, 1)),
                  *g = must(dl_group_norm(x, NULL, NULL, 2, 1e-5)), *p = must(dl_module_forward(m, x));
        assert_int_equal(dl_stride(y)[1], i ? 1 : 16);
        assert_int_equal(strcmp(g->node->op->name, "norm_groups") == 0, !i);
        assert_string_equal(p->node->op->name, i ? "max_pool2d" : "relu_max_pool2d");
        dl_unref(y), dl_unref(g), dl_unref(p);
    }
    fake.joins_nothing = false, fake.layout = DL_LAYOUT_OF_INPUT;
    dl_unref(x), dl_unref(w), dl_module_unref(m);
}

static int begin(void **state) {
    (void)state;
    fake_register();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names), cmocka_unit_test(operands_apart), cmocka_unit_test(no_room),
        cmocka_unit_test(lost),  cmocka_unit_test(default_device), cmocka_unit_test(answers),
    };
    return cmocka_run_group_tests(tests, begin, NULL);
}
