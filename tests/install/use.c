/* A program of someone else's that uses the installed library: the gradient of sum(x * x) is 2 x. */
#include <stdio.h>
#include <dlcore.h>

static int fail(void) {
    fprintf(stderr, "%s\n", dl_errmsg());
    return 1;
}

int main(void) {
    float x0[3] = {1, -2, 3};
    long n = 3;
    double g[3];
    dl_tensor *x = dl_tensor_from(1, &n, DL_F32, 0, x0);
    if (!x || dl_set_requires_grad(x, 1)) return fail();
    dl_tensor *square = dl_mul(x, x), *loss = dl_sum(square, NULL, 0, 0);
    if (!loss || dl_backward(loss, NULL, 0, 0) || dl_read_f64(dl_grad(x), g)) return fail();
    dl_unref(loss);
    dl_unref(square);
    dl_unref(x);
    printf("libdlcore %s: %g %g %g\n", dl_version(), g[0], g[1], g[2]);
    return g[0] != 2 || g[1] != -4 || g[2] != 6;
}
