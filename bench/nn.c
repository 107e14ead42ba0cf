/* Products, convolutions, losses and whole training steps, in milliseconds, one line "name median" each; bench/nn.py
 * does the same with PyTorch and prints the ratios. usage: bench_nn [PART-OF-A-NAME] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "dlcore.h"

#define SHAPE(...) ((long[]){__VA_ARGS__})

enum { MAX_REPEATS = 201 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static dl_tensor *must(dl_tensor *t) {
    if (t) return t;
    fprintf(stderr, "bench_nn: %s\n", dl_errmsg());
    exit(1);
}

static void done(dl_status s) {
    if (s != DL_OK) must(NULL);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static dl_tensor *drawn(int ndim, const long *shape, double scale) {
    dl_tensor *r = must(dl_randn(shape, ndim, DL_F32, 0)), *k = dl_scalar_f(scale), *t = must(dl_mul(r, k));
    dl_unref(r), dl_unref(k);
    return t;
}

/* ---- what is measured: job->run(job) once */

typedef struct job job;
struct job {
    const char *name;
    void (*run)(job *);
    int repeats, inner;
    dl_tensor *t[16], *more[16]; /* operands; parameters and their buffers */
    dl_tensor *labels, *lr, *count;
    int np, adam;
};

static void do_matmul(job *j) { dl_unref(must(dl_matmul(j->t[0], j->t[1]))); }
static void do_conv(job *j) { dl_unref(must(dl_conv2d(j->t[0], j->t[1], NULL, NULL, 0, SHAPE(1), 1, NULL, 0, 1))); }
static void do_conv_dx(job *j) {
    dl_unref(must(dl_conv2d_dx(j->t[2], j->t[1], dl_shape(j->t[0]) + 2, 2, NULL, 0, SHAPE(1), 1, NULL, 0, 1)));
}
static void do_conv_dw(job *j) {
    dl_unref(must(dl_conv2d_dw(j->t[2], j->t[0], SHAPE(3, 3), 2, NULL, 0, SHAPE(1), 1, NULL, 0, 1)));
}
static void do_pool(job *j) { dl_unref(must(dl_max_pool2d(j->t[2], SHAPE(2), 1, NULL, 0, NULL, 0, NULL, 0, 0))); }
static void do_norm(job *j) { dl_unref(must(dl_batch_norm(j->t[2], NULL, NULL, j->t[3], j->t[3], 1, 0.1, 1e-5))); }
static void do_dropout(job *j) { dl_unref(must(dl_dropout(j->t[0], 0.5, 1))); }
static void do_softmax(job *j) { dl_unref(must(dl_softmax(j->t[0], 1))); }

static void do_chain(job *j) {
    dl_tensor *h = dl_ref(j->t[0]);
    for (int i = 0; i < 10; i++) {
        dl_tensor *m = must(dl_matmul(h, j->more[i])), *next = must(dl_tanh(m));
        dl_unref(h), dl_unref(m);
        h = next;
    }
    done(dl_backward(h, j->t[1], 0, 0));
    dl_unref(h);
    for (int i = 0; i < 10; i++) done(dl_set_grad(j->more[i], NULL));
}

/* ---- training steps */

static void add_parameter(job *j, int ndim, const long *shape, double scale) {
    dl_tensor *p = drawn(ndim, shape, scale);
    done(dl_set_requires_grad(p, 1));
    j->t[j->np] = p;
    j->more[j->np] = drawn(ndim, shape, 0);
    j->np++;
}

static void update(job *j, dl_tensor *loss) {
    dl_tensor *list[64];
    int n = 0;
    done(dl_backward(loss, NULL, 0, 0));
    for (int i = 0; i < j->np; i++) list[n++] = j->t[i];
    for (int i = 0; i < j->np; i++) list[n++] = dl_grad(j->t[i]);
    for (int i = 0; i < j->np; i++) list[n++] = j->more[i];
    for (int i = 0; j->adam && i < j->np; i++) list[n++] = j->more[8 + i];
    if (j->adam)
        done(dl_adam_step(j->lr, j->count, list, n, 0.9, 0.999, 1e-8, 0, 0, 0, 0));
    else
        done(dl_sgd_step(j->lr, j->count, list, n, 0.9, 0, 0, 0, 0, 0));
    for (int i = 0; i < j->np; i++) done(dl_set_grad(j->t[i], NULL));
    dl_unref(loss);
}

/* Replaces *h by a layer's result. */
static void step_to(dl_tensor **h, dl_tensor *next) {
    dl_unref(*h);
    *h = must(next);
}

/* The net's parameters are pairs of weight and bias: first `convs` convolutions, each with relu and pooling. */
static void do_net(job *j) {
    int convs = 0;
    dl_tensor *h = dl_ref(j->t[15]);
    for (; 2 * convs < j->np && dl_ndim(j->t[2 * convs]) == 4; convs++) {
        step_to(&h, dl_conv2d(h, j->t[2 * convs], j->t[2 * convs + 1], NULL, 0, SHAPE(1), 1, NULL, 0, 1));
        step_to(&h, dl_relu(h));
        step_to(&h, dl_max_pool2d(h, SHAPE(2), 1, NULL, 0, NULL, 0, NULL, 0, 0));
    }
    if (convs) step_to(&h, dl_reshape(h, SHAPE(dl_shape(h)[0], -1), 2));
    for (int i = 2 * convs; i < j->np; i += 2) {
        step_to(&h, dl_linear(h, j->t[i], j->t[i + 1]));
        if (i + 2 < j->np) step_to(&h, dl_relu(h));
    }
    dl_tensor *loss = must(dl_cross_entropy(h, j->labels, NULL, "mean", -100, 0));
    dl_unref(h);
    update(j, loss);
}

static void add_layer(job *j, int ndim, const long *shape) {
    add_parameter(j, ndim, shape, 0.05);
    add_parameter(j, 1, shape, 0.05);
}

static void net_data(job *j, int ndim, const long *shape, int adam) {
    long labels[64];
    for (int i = 0; i < 64; i++) labels[i] = i % 10;
    j->t[15] = drawn(ndim, shape, 1);
    j->labels = must(dl_tensor_from(1, SHAPE(64), DL_I64, 0, labels));
    j->lr = dl_scalar_f(0.01);
    j->count = dl_scalar_i(10);
    j->adam = adam;
    for (int i = 0; adam && i < j->np; i++) j->more[8 + i] = drawn(dl_ndim(j->t[i]), dl_shape(j->t[i]), 0);
}

static void make_net(job *j) {
    int adam = strstr(j->name, "adam") != NULL;
    if (strstr(j->name, "mlp")) {
        add_layer(j, 2, SHAPE(256, 784));
        add_layer(j, 2, SHAPE(10, 256));
        net_data(j, 2, SHAPE(64, 784), adam);
    } else if (strstr(j->name, "conv16")) {
        add_layer(j, 4, SHAPE(16, 1, 3, 3));
        add_layer(j, 2, SHAPE(10, 3136));
        net_data(j, 4, SHAPE(64, 1, 28, 28), adam);
    } else {
        add_layer(j, 4, SHAPE(32, 3, 3, 3));
        add_layer(j, 4, SHAPE(64, 32, 3, 3));
        add_layer(j, 2, SHAPE(256, 4096));
        add_layer(j, 2, SHAPE(10, 256));
        net_data(j, 4, SHAPE(64, 3, 32, 32), adam);
    }
}

/* Operands by the job's kind. */
static void make(job *j) {
    if (j->run == do_net) {
        make_net(j);
    } else if (j->run == do_matmul || j->run == do_softmax) {
        const long n = j->run == do_matmul ? 2048 : 1024, *shape = SHAPE(2 * n / (1 + (n == 2048)), n);
        for (int i = 0; i < 2; i++) j->t[i] = drawn(2, shape, 1);
    } else if (j->run == do_chain) {
        for (int i = 0; i < 2; i++) j->t[i] = drawn(2, SHAPE(16, 16), 1);
        for (int i = 0; i < 10; i++) {
            j->more[i] = drawn(2, SHAPE(16, 16), 0.3);
            done(dl_set_requires_grad(j->more[i], 1));
        }
    } else {
        dl_tensor *x = drawn(4, SHAPE(32, 64, 28, 28), 1);
        j->t[0] = must(dl_restride(x, SHAPE(50176, 1, 1792, 64), 4)); /* as a layer before would leave it */
        j->t[1] = drawn(4, SHAPE(64, 64, 3, 3), 0.1);
        j->t[2] = must(dl_conv2d(j->t[0], j->t[1], NULL, NULL, 0, SHAPE(1), 1, NULL, 0, 1));
        j->t[3] = drawn(1, SHAPE(64), 1);
        dl_unref(x);
    }
}

static double measure(job *j) {
    double t[MAX_REPEATS];
    for (int r = -3; r < j->repeats; r++) {
        double start = now();
        for (int i = 0; i < j->inner; i++) j->run(j);
        if (r >= 0) t[r] = (now() - start) / j->inner;
    }
    qsort(t, (size_t)j->repeats, sizeof *t, by_value);
    return t[j->repeats / 2] * 1e3;
}

int main(int argc, char **argv) {
    static job jobs[] = {
        {.name = "matmul_2048", .run = do_matmul, .repeats = 7, .inner = 1},
        {.name = "conv_forward", .run = do_conv, .repeats = 21, .inner = 1},
        {.name = "conv_dx", .run = do_conv_dx, .repeats = 21, .inner = 1},
        {.name = "conv_dw", .run = do_conv_dw, .repeats = 21, .inner = 1},
        {.name = "max_pool2d", .run = do_pool, .repeats = 21, .inner = 1},
        {.name = "batch_norm", .run = do_norm, .repeats = 21, .inner = 1},
        {.name = "dropout", .run = do_dropout, .repeats = 21, .inner = 1},
        {.name = "softmax_2048x1024", .run = do_softmax, .repeats = 21, .inner = 1},
        {.name = "chain_10x16x16", .run = do_chain, .repeats = 201, .inner = 20},
        {.name = "mlp_sgd", .run = do_net, .repeats = 101, .inner = 2},
        {.name = "mlp_adam", .run = do_net, .repeats = 101, .inner = 2},
        {.name = "conv16_sgd", .run = do_net, .repeats = 51, .inner = 1},
        {.name = "cifar_sgd", .run = do_net, .repeats = 21, .inner = 1},
    };
    for (unsigned i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        if (argc > 1 && !strstr(jobs[i].name, argv[1])) continue;
        make(&jobs[i]);
        if (jobs[i].run != do_chain && jobs[i].run != do_net) dl_grad_mode(0);
        printf("%s %.4f\n", jobs[i].name, measure(&jobs[i]));
        fflush(stdout);
        dl_grad_mode(1);
    }
    return 0;
}
