/* DLPack: exported tensors are described right, imported ones are released once, and what cannot be shared is refused.
 * */
#include "support/tensors.h"

#include "io/dlpack.h"
#include "dlcore/arithmetic.h"
#include "dlcore/view.h"

static int returned;

static void on_return(DLManagedTensorVersioned *m) {
    (void)m;
    returned++;
}

/* A row-major [2,3] of f32 by another library. */
static float memory[6];
static int64_t sizes[2] = {2, 3};
static DLManagedTensorVersioned foreign(void) {
    returned = 0;
    for (int i = 0; i < 6; i++) memory[i] = (float)i;
    return (DLManagedTensorVersioned){
        .major = DLPACK_MAJOR,
        .deleter = on_return,
        .dl_tensor = {
            .data = memory, .device = {DLPACK_CPU, 0}, .ndim = 2, .dtype = {DLPACK_FLOAT, 32, 1}, .shape = sizes}};
}

static void lent(void **state) {
    (void)state;
    static const dlpack_dtype want[DL_NDTYPE] = {{6, 8, 1},  {1, 8, 1},  {0, 32, 1}, {0, 64, 1}, {2, 16, 1},
                                                 {4, 16, 1}, {2, 32, 1}, {2, 64, 1}, {5, 64, 1}, {5, 128, 1}};
    for (int dtype = 0; dtype < DL_NDTYPE; dtype++) {
        dl_tensor *t = must(dl_tensor_zeros(2, SHAPE(2, 3), (dl_dtype)dtype, 0));
        DLManagedTensor *m = dl_to_dlpack(t);
        assert_non_null(m);
        assert_memory_equal(&m->dl_tensor.dtype, &want[dtype], sizeof want[dtype]);
        assert_ptr_equal(m->dl_tensor.data, dl_data(t));
        dl_unref(t); /* the loan keeps the memory */
        dl_tensor *back = must(dl_from_dlpack(m));
        assert_int_equal(dl_dtype_of(back), dtype);
        dl_unref(back);
    }
}

static void offsets_and_strides(void **state) {
    (void)state;
    dl_tensor *t = drawn(1, 2, SHAPE(4, 6), DL_F64), *turned = must(dl_permute(t, SHAPE(1, 0), 2));
    dl_tensor *part = must(dl_slice(turned, 0, SHAPE(1), SHAPE(6), 2));
    DLManagedTensorVersioned *m = dl_to_dlpack_versioned(part, 1);
    assert_non_null(m);
    assert_int_equal(m->dl_tensor.byte_offset, sizeof(double));
    assert_int_equal(m->dl_tensor.strides[0], 2);
    assert_int_equal(m->dl_tensor.strides[1], 6);
    assert_int_equal(m->flags, DLPACK_READ_ONLY);
    dl_tensor *back = must(dl_from_dlpack_versioned(m));
    near(back, part, 0, "a strided tensor lent and taken back");
    assert_true(dl_is_readonly(back));
    dl_unref(back);
    dl_unref(part);
    dl_unref(turned);
    dl_unref(t);
}

static void returned_once(void **state) {
    (void)state;
    DLManagedTensorVersioned m = foreign();
    dl_tensor *t = must(dl_from_dlpack_versioned(&m)), *row = must(dl_select(t, 0, 1)), *sum = must(dl_add(t, t));
    dl_unref(t);
    assert_int_equal(returned, 0);
    double v[3];
    ok(dl_read_f64(row, v));
    assert_true(v[2] == 5);
    dl_unref(row);
    assert_int_equal(returned, 1);
    dl_unref(sum);
    assert_int_equal(returned, 1);
}

static void read_only(void **state) {
    (void)state;
    DLManagedTensorVersioned m = foreign();
    m.flags = DLPACK_READ_ONLY;
    dl_tensor *t = must(dl_from_dlpack_versioned(&m)), *one = must(dl_scalar_f(1));
    assert_int_equal(dl_assign(t, one), DL_ERR_STATE);
    assert_true(memory[0] == 0);
    assert_null(dl_to_dlpack(t));
    assert_non_null(strstr(dl_errmsg(), "only be read"));
    dl_unref(one);
    dl_unref(t);
    m = foreign();
    t = must(dl_from_dlpack_versioned(&m)), one = must(dl_scalar_f(1));
    ok(dl_assign(t, one));
    assert_true(memory[5] == 1);
    dl_unref(one);
    dl_unref(t);
}

static void refused(void **state) {
    (void)state;
    static int64_t back[2] = {-3, 1}, far[2] = {INT64_MAX / 2, 1}, many[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    DLManagedTensorVersioned m = foreign();
#define REFUSED(member, value, code, text)                                                                             \
    m = foreign(), m.member = value, fails(dl_from_dlpack_versioned(&m), code, text), assert_int_equal(returned, 0)
    REFUSED(major, 2, DL_ERR_UNSUPPORTED, "version 2.0");
    REFUSED(dl_tensor.dtype.bits, 8, DL_ERR_DTYPE, "code 2 with 8 bits");
    REFUSED(dl_tensor.dtype.lanes, 4, DL_ERR_DTYPE, "4 lanes");
    REFUSED(dl_tensor.device.type, 7, DL_ERR_DEVICE, "device type 7");
    REFUSED(dl_tensor.strides, back, DL_ERR_SHAPE, "negative");
    REFUSED(dl_tensor.strides, far, DL_ERR_SHAPE, "out of any memory");
    REFUSED(dl_tensor.data, NULL, DL_ERR_VALUE, "aligned");
    REFUSED(dl_tensor.data, (char *)memory + 1, DL_ERR_VALUE, "aligned");
    m = foreign(), m.dl_tensor.ndim = 9, m.dl_tensor.shape = many;
    fails(dl_from_dlpack_versioned(&m), DL_ERR_SHAPE, "8 dimensions");
    dl_tensor *needs = leaf(drawn(1, 1, SHAPE(2), DL_F32));
    assert_null(dl_to_dlpack(needs));
    assert_int_equal(dl_failed(), DL_ERR_AUTOGRAD);
    dl_unref(needs);
    assert_null(dl_to_dlpack(NULL));
    assert_null(dl_from_dlpack(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lent), cmocka_unit_test(offsets_and_strides),
                                       cmocka_unit_test(returned_once), cmocka_unit_test(read_only),
                                       cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
