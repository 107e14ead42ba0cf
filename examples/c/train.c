/* Training with libdlcore alone, from C: a convolutional net on handwritten digits.
 *   cc train.c $(pkg-config --cflags --libs dlcore) -o train && ./train [FOLDER_WITH_MNIST]
 * Without a folder it trains on digits drawn by the library. examples/python/train.py and examples/train.dlsh print the
 * same numbers. */
#include <stdio.h>
#include <stdlib.h>

#include <dlcore.h>

static void must(int ok) {
    if (ok) return;
    fprintf(stderr, "%s\n", dl_errmsg());
    exit(1);
}

static int report(void *ctx, const dl_train_progress *p) {
    (void)ctx;
    if (p->epoch_end)
        printf("epoch %ld: loss %.9g, test loss %.9g, test accuracy %.9g\n", p->epoch, p->loss, p->test_loss,
               p->test_acc);
    return 0;
}

int main(int argc, char **argv) {
    const char *net = getenv("NET") ? getenv("NET") : "conv 16 k=3 pad=1 -> relu -> maxpool 2 -> flatten -> linear 10";
    dl_seed(getenv("SEED") ? strtoul(getenv("SEED"), NULL, 10) : 0);
    const char *folder[] = {"path", argc > 1 ? argv[1] : "", NULL};
    dl_dataset *data = dl_dataset_open(argc > 1 ? "mnist" : "digits", argc > 1 ? folder : NULL);
    must(data != NULL);
    dl_module *model = dl_net_parse(net);
    must(model != NULL);
    dl_optimizer *opt = dl_optimizer_parse(getenv("OPT") ? getenv("OPT") : "adam lr=1e-3");
    must(opt != NULL);
    dl_trainer *t =
        dl_trainer_new(&(dl_trainer_spec){.model = model, .data = data, .opt = opt, .loader = {.batch = 64}});
    must(t != NULL);
    must(dl_trainer_train(t, getenv("EPOCHS") ? atol(getenv("EPOCHS")) : 5, 0, report, NULL) == DL_OK);
    dl_trainer_free(t);
    dl_optimizer_unref(opt);
    dl_module_unref(model);
    dl_dataset_unref(data);
    return 0;
}
