/* Functions of one sample as functions of a batch: each row's samples with some operands given for each sample, and
 * their gradients, beside the same call for one sample after another. */
#include "support/calls.h"

#include "dlcore/all.h"

enum { SAMPLES_OF_A_BATCH = 3 };

/* A row with the operands that are the same for all samples; `arg` of a function of the others. */
typedef struct subject {
    const call *c;
    int at[MAX_INPUTS], n; /* operands that the function is given */
} subject;

static dl_tensor *input_of(void *arg, int i, const char *token) {
    (void)arg, (void)i;
    return sample_input(token, DL_F64);
}

static bool smooth(const call *c, int i) {
    return c->in[i] && dl_dtype_is_float(dl_dtype_of(c->in[i])) && !(c->op->nondiff_in >> i & 1);
}

/* Results of the row, then the gradients of the sum of their squares by the operands that have one. */
static int run_row(dl_tensor **in, int n, dl_tensor **out, int most, void *arg) {
    const subject *s = arg;
    const call *c = s->c;
    dl_tensor *x[MAX_INPUTS] = {0}, *y[DL_MAX_OUT] = {0}, *by[MAX_INPUTS];
    int nout = 0, nby = 0;
    (void)most;
    for (int i = 0; i < c->nin; i++) x[i] = dl_ref(c->in[i]);
    for (int i = 0; i < n; i++) dl_unref(x[s->at[i]]), x[s->at[i]] = must(dl_detach(in[i]));
    bool derive = !(c->op->flags & DL_F_NODIFF);
    for (int i = 0; i < c->nin && derive; i++) {
        if (!smooth(c, i) || c->in[i]->weak) continue;
        dl_tensor *leaf = must(dl_detach(x[i]));
        ok(dl_set_requires_grad(leaf, 1));
        dl_unref(x[i]);
        by[nby++] = x[i] = leaf;
    }
    dl_status st = dl_invoke(c->op, x, c->nin, c->attr, y);
    dl_tensor *loss = NULL;
    for (int i = 0; i < c->op->out && !st; i++) {
        if (!y[i]) continue;
        if (dl_requires_grad(y[i]) && dl_dtype_is_float(dl_dtype_of(y[i])) && !(c->op->nondiff_out >> i & 1)) {
            dl_tensor *square = must(dl_square(y[i])), *sum = must(dl_sum(square, NULL, 0, 0));
            dl_tensor *more = loss ? must(dl_add(loss, sum)) : dl_ref(sum);
            dl_unref(square), dl_unref(sum), dl_unref(loss);
            loss = more;
        }
        if (i < c->op->visible) out[nout++] = must(dl_detach(y[i]));
    }
    if (loss && nby && !st) {
        dl_tensor *g[MAX_INPUTS];
        st = dl_gradients(loss, NULL, by, nby, 0, 0, g);
        for (int i = 0; i < nby && !st; i++)
            if (g[i]) out[nout++] = g[i];
    }
    for (int i = 0; i < c->nin; i++) dl_unref(x[i]);
    for (int i = 0; i < c->op->out; i++) dl_unref(y[i]);
    dl_unref(loss);
    return st ? -1 : nout;
}

static void compare(const char *key, unsigned set, int i, dl_tensor *got, dl_tensor *want) {
    dl_tensor *a = parts_of(got), *b = parts_of(want);
    if (!dl_shape_eq(a, b) || a->dtype != b->dtype)
        fail_msg("%s, operands %x: result %d has another form", key, set, i);
    double *x = values(a), *y = values(b), most = 1, share = a->dtype == DL_F64 ? 1e-9 : 4e-6;
    for (long k = 0; k < dl_numel(a); k++)
        if (isfinite(y[k])) most = fmax(most, fabs(y[k]));
    for (long k = 0; k < dl_numel(a); k++)
        if (!(fabs(x[k] - y[k]) <= share * most || x[k] == y[k] || (isnan(x[k]) && isnan(y[k]))))
            fail_msg("%s, operands %x: element %ld of result %d is %.12g, alone %.12g", key, set, k, i, x[k], y[k]);
    free(x), free(y);
    dl_unref(a), dl_unref(b);
}

static dl_tensor *stack_all(dl_tensor **t) { return must(dl_stack(t, SAMPLES_OF_A_BATCH, 0)); }

/* What may run sample by sample: rows without a batch rule, rows whose rule says so of these operands, and functions
 * that look at values. */
static void check_each(const char *key, unsigned set, const char *text) {
    static const char *const known[] = {
        "",
        "spmm, sddmm",
        "spmm, sddmm, csr_transpose",
        "sddmm, spmm",
        "sddmm, spmm, csr_transpose",
        "csr_transpose",
        "sorted_place",
        "conv2d_norm",
        "masked_scatter",
        "masked_select",
        "masked_select, masked_scatter",
        "masked_scatter, masked_select",
        "conv2d_relu_max_pool2d",
        "cross_entropy",
        "linear_losses",
        "norm_groups",
        "recurrent",
        "the function, because it looks at the values of a tensor",
        "the function, because memory that is the same for all samples is written to by batch_norm",
        "the function, because all samples at once fail: a tensor has at most 8 dimensions"};
    for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(text, known[i])) return;
    /* the number of elements that a mask picks is another one in each sample */
    if (!strncmp(text, "masked_scatter, masked_select, the function", 43) && strstr(text, "must have one shape"))
        return;
    fail_msg("%s, operands %x: %s", key, set, text);
}

/* The operands of `set` differ from sample to sample. */
static void check(call *c, unsigned set) {
    subject s = {.c = &c[0]};
    dl_tensor *all[MAX_INPUTS], *out[DL_MAX_VMAP_RESULTS], *want[SAMPLES_OF_A_BATCH][MAX_RESULTS] = {0};
    long dim[MAX_INPUTS] = {0};
    int nout = 0, n = 0;
    for (int i = 0; i < c->nin; i++)
        if (set >> i & 1) s.at[s.n++] = i;
    for (int i = 0; i < s.n; i++) {
        dl_tensor *t[SAMPLES_OF_A_BATCH];
        for (int k = 0; k < SAMPLES_OF_A_BATCH; k++) t[k] = c[k].in[s.at[i]];
        dl_tensor *whole = stack_all(t);
        all[i] = must(dl_detach(whole));
        dl_unref(whole);
    }
    for (int k = 0; k < SAMPLES_OF_A_BATCH; k++) {
        dl_tensor *in[MAX_INPUTS];
        for (int i = 0; i < s.n; i++) in[i] = c[k].in[s.at[i]];
        n = run_row(in, s.n, want[k], MAX_RESULTS, &s);
        if (n < 0) { /* drawn operands that do not fit */
            dl_error_clear();
            for (int j = 0; j < k; j++)
                for (int i = 0; i < MAX_RESULTS; i++) dl_unref(want[j][i]);
            for (int i = 0; i < s.n; i++) dl_unref(all[i]);
            return;
        }
    }
    bool alike = true; /* the size of some results depends on values */
    for (int k = 1; k < SAMPLES_OF_A_BATCH; k++)
        for (int i = 0; i < n; i++) alike &= dl_shape_eq(want[0][i], want[k][i]);
    if (alike && dl_vmap(run_row, &s, all, dim, s.n, DL_VMAP_DIFFERENT, out, &nout) != DL_OK)
        fail_msg("%s, operands %x: %s", c->key, set, dl_errmsg());
    if (alike) check_each(c->key, set, dl_vmap_each());
    if (alike && n != nout) fail_msg("%s, operands %x: %d results, alone %d", c->key, set, nout, n);
    for (int i = 0; i < n; i++) {
        dl_tensor *t[SAMPLES_OF_A_BATCH];
        for (int k = 0; k < SAMPLES_OF_A_BATCH; k++) t[k] = want[k][i];
        if (alike) {
            dl_tensor *each = stack_all(t);
            compare(c->key, set, i, out[i], each);
            dl_unref(each), dl_unref(out[i]);
        }
        for (int k = 0; k < SAMPLES_OF_A_BATCH; k++) dl_unref(want[k][i]);
    }
    for (int i = 0; i < s.n; i++) dl_unref(all[i]);
}

static void check_sample(const dl_op *op, const char *text) {
    call c[SAMPLES_OF_A_BATCH] = {0};
    unsigned all = 0;
    for (int k = 0; k < SAMPLES_OF_A_BATCH; k++) {
        c[k].op = op;
        snprintf(c[k].key, sizeof c[k].key, "%s(%s)", op->name, text);
        parse_call(&c[k], text, input_of, NULL);
    }
    for (int i = 0; i < c->nin; i++)
        if (c->in[i] && !c->in[i]->weak) all |= 1u << i;
    for (int i = 0; i < c->nin; i++)
        if (all >> i & 1 && all != 1u << i) check(c, 1u << i);
    if (all) check(c, all);
    for (int k = 0; k < SAMPLES_OF_A_BATCH; k++)
        for (int i = 0; i < c->nin; i++) dl_unref(c[k].in[i]);
}

static void rows_of_batches(void **state) {
    (void)state;
    const char *only = getenv("ONLY");
    for (int i = 0; dl_op_at(i); i++) {
        const dl_op *op = dl_op_at(i);
        if (!op->samples || !op->in_max || op->mutates || op->flags & DL_F_RNG || (only && strcmp(only, op->name)))
            continue;
        char *copy = strdup(op->samples), *save = NULL;
        for (char *one = strtok_r(copy, ";", &save); one; one = strtok_r(NULL, ";", &save))
            check_sample(op, one + strspn(one, " "));
        free(copy);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_of_batches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
