/* Times of training steps on the GPU, for bench/gpu_train.py, which runs this beside PyTorch: one line each,
 * "name<TAB>milliseconds a step from graphs<TAB>op by op<TAB>how". A step takes its batch from a resident data set and
 * reports its loss, accuracy and gradient norm. Usage: bench_gpu_train [part of a name]. */
#include "gpu_measure.h"

enum { ROUNDS = 5, STEPS = 200, EPOCH = 40 };

#define MLP "flatten -> linear 256 -> relu -> linear 10"
#define CONV "conv 16 k=3 pad=1 -> relu -> maxpool 2 -> flatten -> linear 10"
#define CIFAR                                                                                                          \
    "conv 32 k=3 pad=1 -> relu -> maxpool 2 -> conv 64 k=3 pad=1 -> relu -> maxpool 2 -> flatten -> linear 256 -> "    \
    "relu -> linear 10"
#define RES                                                                                                            \
    "flatten -> linear 100 -> relu -> repeat 3 { residual { linear 50 -> batchnorm -> relu -> dropout 0.1 -> linear "  \
    "100 -> batchnorm } -> relu } -> linear 10"
#define PAIR(c, s)                                                                                                     \
    "conv " c " k=3 stride=" s " pad=1 bias=false -> batchnorm -> relu -> conv " c " k=3 pad=1 bias=false -> "         \
    "batchnorm"
#define SAME(c) "residual { " PAIR(c, "1") " } -> relu -> "
#define HALF(c)                                                                                                        \
    "residual { " PAIR(c, "2") " } shortcut { conv " c " k=1 stride=2 bias=false -> batchnorm } -> relu -> " SAME(c)
#define RESNET18                                                                                                       \
    "conv 64 k=3 pad=1 bias=false -> batchnorm -> relu -> " SAME("64") SAME("64") HALF("128") HALF("256")              \
        HALF("512") "adaptiveavgpool 1 -> flatten -> linear 10"
#define SGD "sgd lr=0.01 momentum=0.9"
#define ADAM "adam lr=1e-3"

static const struct {
    const char *name, *net, *opt;
    long batch, c, size;
    dl_precision precision;
} cases[] = {
    {"mlp_b64_sgd", MLP, SGD, 64, 1, 28, DL_PRECISION_F32},
    {"mlp_b64_adam", MLP, ADAM, 64, 1, 28, DL_PRECISION_F32},
    {"mlp_b1024_sgd", MLP, SGD, 1024, 1, 28, DL_PRECISION_F32},
    {"mlp_b1024_adam", MLP, ADAM, 1024, 1, 28, DL_PRECISION_F32},
    {"conv16_b64_sgd", CONV, SGD, 64, 1, 28, DL_PRECISION_F32},
    {"conv16_b64_adam", CONV, ADAM, 64, 1, 28, DL_PRECISION_F32},
    {"conv16_b1024_sgd", CONV, SGD, 1024, 1, 28, DL_PRECISION_F32},
    {"conv16_b1024_adam", CONV, ADAM, 1024, 1, 28, DL_PRECISION_F32},
    {"cifar_b64_sgd", CIFAR, SGD, 64, 3, 32, DL_PRECISION_F32},
    {"cifar_b64_adam", CIFAR, ADAM, 64, 3, 32, DL_PRECISION_F32},
    {"cifar_b1024_sgd", CIFAR, SGD, 1024, 3, 32, DL_PRECISION_F32},
    {"cifar_b1024_adam", CIFAR, ADAM, 1024, 3, 32, DL_PRECISION_F32},
    {"resmlp_b100_sgd", RES, SGD, 100, 1, 28, DL_PRECISION_F32},
    {"resmlp_b100_adam", RES, ADAM, 100, 1, 28, DL_PRECISION_F32},
    {"resnet18_b128_sgd", RESNET18, SGD, 128, 3, 32, DL_PRECISION_F32},
    {"resnet18_b512_sgd_tf32", RESNET18, SGD, 512, 3, 32, DL_PRECISION_TF32},
    {"resnet18_b512_sgd_bf16", RESNET18, SGD, 512, 3, 32, DL_PRECISION_BF16},
};

static dl_dataset *noise(long n, long c, long size) {
    long shape[4] = {n, c, size, size};
    dl_tensor *x = dl_randint(0, 256, shape, 4, DL_U8, 0), *y = dl_randint(0, 10, shape, 1, DL_I64, 0);
    dl_dataset *d = x && y ? dl_dataset_from(x, y, NULL, NULL, "noise") : NULL;
    dl_unref(x);
    dl_unref(y);
    return d;
}

/* Milliseconds a step, the least of several rounds of a full queue; negative: the error is recorded. */
static double measure(int i, int captured, const char **how) {
    static char note[200];
    dl_dataset *d = noise(cases[i].batch * EPOCH, cases[i].c, cases[i].size);
    dl_trainer_spec s = {.model = dl_net_parse(cases[i].net),
                         .opt = dl_optimizer_parse(cases[i].opt),
                         .data = d,
                         .device = GPU,
                         .eval_every = -1,
                         .loader.batch = cases[i].batch};
    dl_capture_set(captured);
    dl_precision_set(cases[i].precision);
    long steps = strncmp(cases[i].name, "resnet18", 8) ? STEPS : STEPS / 8;
    dl_trainer *t = d && s.model && s.opt ? dl_trainer_new(&s) : NULL;
    double best = -1;
    for (int k = 0; t && k <= ROUNDS; k++) {
        double from = bench_now();
        if (dl_trainer_train(t, 0, steps, NULL, NULL) != DL_OK) {
            best = -1;
            break;
        }
        double each = (bench_now() - from) / (double)steps;
        if (k && (best < 0 || each < best)) best = each;
    }
    snprintf(note, sizeof note, "%s", t ? dl_trainer_capture(t) : "");
    *how = note;
    dl_trainer_free(t);
    dl_module_unref(s.model);
    dl_optimizer_unref(s.opt);
    dl_dataset_unref(d);
    return best;
}

int main(int argc, char **argv) {
    if (!bench_begin()) return 0;
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (argc > 1 && !strstr(cases[i].name, argv[1])) continue;
        const char *how;
        double eager = measure((int)i, 0, &how), graph = eager < 0 ? -1 : measure((int)i, 1, &how);
        if (graph < 0)
            printf("%s\tfailed: %s\n", cases[i].name, dl_errmsg());
        else
            printf("%s\t%.4f\t%.4f\t%s\n", cases[i].name, graph, eager, how);
        fflush(stdout);
    }
    return 0;
}
