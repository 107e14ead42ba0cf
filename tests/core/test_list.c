/* Growing lists, sets of addresses, and what ends with a block. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/list.h"
#include "core/scope.h"
#include "core/tensor.h"

enum { MANY = 5000 };

static void a_list_grows_and_keeps_its_entries(void **state) {
    (void)state;
    long *list = NULL, cap = 0;
    for (long i = 0; i < MANY; i++) {
        assert_int_equal(DL_LIST_ROOM(list, i, cap), DL_OK);
        assert_true(cap > i);
        list[i] = i * i;
    }
    for (long i = 0; i < MANY; i++) assert_int_equal(list[i], i * i);
    free(list);
}

static void addresses_are_numbered_in_order(void **state) {
    (void)state;
    static char memory[64 * MANY];
    dl_addresses a = {0};
    assert_int_equal(dl_addresses_find(&a, memory), -1);
    for (int round = 0; round < 2; round++) {
        for (long i = 0; i < MANY; i++) assert_int_equal(dl_addresses_add(&a, memory + 64 * i), i);
        for (long i = 0; i < MANY; i++) assert_int_equal(dl_addresses_add(&a, memory + 64 * i), i);
        assert_int_equal(a.n, MANY);
        assert_int_equal(dl_addresses_find(&a, memory + 1), -1);
        dl_addresses_clear(&a);
        assert_int_equal(dl_addresses_find(&a, memory), -1);
    }
    dl_addresses_free(&a);
}

static int leave_early(const dl_tensor *t) {
    DL_SCOPED_INTERRUPT_HOLD(1);
    DL_SCOPED_ERROR;
    DL_OWNED dl_tensor *mine = dl_ref((dl_tensor *)t);
    dl_fail(DL_ERR_VALUE, "forgotten");
    if (mine->refs == 2) return dl_interrupt_get();
    return -1;
}

static void a_block_restores_on_every_path(void **state) {
    (void)state;
    dl_tensor *t = dl_scalar_f(1);
    dl_error_clear();
    dl_interrupt_set(1);
    assert_int_equal(leave_early(t), 0);
    assert_int_equal(dl_interrupt_get(), 1);
    dl_interrupt_set(0);
    assert_int_equal(t->refs, 1);
    assert_null(dl_error_last());
    dl_unref(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_grows_and_keeps_its_entries),
        cmocka_unit_test(addresses_are_numbered_in_order),
        cmocka_unit_test(a_block_restores_on_every_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
