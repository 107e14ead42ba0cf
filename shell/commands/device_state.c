/* What a device has and does, as functions: PyTorch's of torch.cuda. */
#include <string.h>

#include "lang/session.h"

/* The device that `name` names; without it the present one. */
static dl_status device_arg(const dlsh_args *a, int *out) {
    *out = dlsh_default_device();
    if (!dlsh_given(a, "name") || !dl_device_parse(dlsh_arg_str(a, "name"), out)) return DL_OK;
    dl_error e = *dl_error_last();
    return dlsh_arg_fail(a, "name", e.code, "is_available(\"cuda\") asks whether there is a GPU", "%s", e.message);
}

static dl_status is_available_run(const dlsh_args *a, dlsh_value *result) {
    const char *name = dlsh_given(a, "name") ? dlsh_arg_str(a, "name") : "cuda";
    int device;
    *result = dlsh_bool(!dl_device_parse(name, &device));
    if (result->as.i) return DL_OK;
    if (strncmp(name, "cuda", 4) != 0)
        return dlsh_arg_fail(a, "name", DL_ERR_NAME, "cpu, cuda or cuda:1", "there is no kind of device '%s'", name);
    dl_error_clear();
    return DL_OK;
}

static dl_status device_count_run(DLSH_UNUSED const dlsh_args *a, dlsh_value *result) {
    *result = dlsh_int(dl_device_count() - 1);
    return DL_OK;
}

static dl_status default_device_run(DLSH_UNUSED const dlsh_args *a, dlsh_value *result) {
    return dlsh_give(dlsh_string(dl_device_name(dlsh_default_device())), result);
}

static dl_status device_name_run(const dlsh_args *a, dlsh_value *result) {
    char what[192];
    int device;
    DLSH_TRY(device_arg(a, &device));
    DLSH_TRY(dl_device_describe(device, what, sizeof what));
    return dlsh_give(dlsh_string(what), result);
}

static dl_status synchronize_run(const dlsh_args *a) {
    int device;
    DLSH_TRY(device_arg(a, &device));
    return dl_device_synchronize(device);
}

static dl_status reset_peak_run(const dlsh_args *a) {
    int device;
    DLSH_TRY(device_arg(a, &device));
    return dl_device_reset_peak(device);
}

enum { USED, PEAK, RESERVED, AVAILABLE };
static const int used = USED, peak = PEAK, reserved = RESERVED, available = AVAILABLE;

static dl_status memory_run(const dlsh_args *a, dlsh_value *result) {
    dl_device_memory m;
    int device;
    DLSH_TRY(device_arg(a, &device));
    DLSH_TRY(dl_device_memory_get(device, &m));
    const long bytes[] = {[USED] = m.used, [PEAK] = m.peak, [RESERVED] = m.used + m.cached, [AVAILABLE] = m.available};
    *result = dlsh_int(bytes[*(const int *)dlsh_arg_data(a)]);
    return DL_OK;
}

static dl_status get_num_threads_run(DLSH_UNUSED const dlsh_args *a, dlsh_value *result) {
    *result = dlsh_int(dl_threads());
    return DL_OK;
}

static dl_status set_num_threads_run(const dlsh_args *a) {
    long n = dlsh_arg_int(a, "n");
    if (n >= 1 && n <= 1024) return dl_threads_set((int)n);
    return dlsh_arg_fail(a, "n", DL_ERR_VALUE, NULL, "there are 1 to 1024 threads, not %ld", n);
}

#define DEVICE_PARAM                                                                                                   \
    DLSH_PARAMS(                                                                                                       \
        {"name", .want = "string", .flags = DLSH_OPTIONAL, .doc = "cpu, cuda or cuda:N; default: the present device"})
#define MEMORY_ROW(name, text, which)                                                                                  \
    DLSH_FN_ROW(name, memory_run, name "(DEVICE)", text, DEVICE_PARAM, .data = &(which), .examples = name "() >= 0")

const dlsh_command device_state_commands[] = {
    DLSH_FN_ROW("is_available", is_available_run, "is_available(DEVICE=\"cuda\")",
                "Is there a device of this name, with its driver?",
                DLSH_PARAMS({"name", .want = "string", .flags = DLSH_OPTIONAL, .doc = "cpu, cuda or cuda:N"}),
                .examples = "x = randn(2).to(cuda.is_available() ? \"cuda\" : \"cpu\")"),
    DLSH_FN_ROW("device_count", device_count_run, "device_count()", "How many GPUs there are.",
                DLSH_PARAMS({"name", .want = "string", .flags = DLSH_OPTIONAL, .doc = "cuda"}),
                .examples = "device_count() >= 0"),
    DLSH_FN_ROW("get_default_device", default_device_run, "get_default_device()",
                "The device of nets, data and new tensors; the command device chooses it.",
                .examples = "get_default_device() == zeros(1).device"),
    DLSH_FN_ROW("get_device_name", device_name_run, "get_device_name(DEVICE)",
                "What a device is: name, memory and versions of a GPU, threads of the CPU.", DEVICE_PARAM,
                .examples = "get_device_name(\"cpu\")"),
    DLSH_ACT_ROW("synchronize", synchronize_run, "synchronize(DEVICE)",
                 "Waits for all work on a device, as before a time is taken, and reports its faults.", DEVICE_PARAM,
                 .examples = "synchronize()"),
    MEMORY_ROW("memory_allocated", "Bytes that tensors hold on a device.", used),
    MEMORY_ROW("max_memory_allocated", "Bytes that tensors have held at most, since reset_peak_memory_stats().", peak),
    MEMORY_ROW("memory_reserved", "Bytes that tensors hold, and that are kept for reuse beside them.", reserved),
    MEMORY_ROW("memory_available", "Bytes that are free on a device; 0 where the system does not tell.", available),
    DLSH_ACT_ROW("reset_peak_memory_stats", reset_peak_run, "reset_peak_memory_stats(DEVICE)",
                 "Begins anew to measure what max_memory_allocated tells.", DEVICE_PARAM,
                 .examples = "reset_peak_memory_stats()\nmax_memory_allocated() == memory_allocated()"),
    DLSH_FN_ROW("get_num_threads", get_num_threads_run, "get_num_threads()", "Threads that computations use.",
                .examples = "get_num_threads() >= 1"),
    DLSH_ACT_ROW("set_num_threads", set_num_threads_run, "set_num_threads(N)",
                 "Chooses how many threads computations use: the same as set threads N.",
                 DLSH_PARAMS({"n", .want = "int", .doc = "1 to 1024"}), .examples = "set_num_threads(2)"),
    {0}};
