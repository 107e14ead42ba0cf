/* Loading cuFFT, and keeping its plans. */
#include "cuda/runtime/cufft.h"
#include "cuda/runtime/library.h"

#include <stdio.h>
#include <string.h>

static dl_fft_calls calls;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char missing[256];

enum { KEPT = 64 };
/* The last one used stands first. */
static struct kept {
    dl_fft_shape shape;
    cufftHandle plan;
    size_t bytes;
} kept[KEPT];
static int nkept;

static void open_library(void) {
    static const char *const names[] = {
#define X(name) #name,
        DL_FFT_LIST(X) NULL};
#undef X
    char so[64];
    snprintf(so, sizeof so, "libcufft.so.%d", CUFFT_VER_MAJOR);
    dl_library_open(so, names, (void **)&calls, missing, sizeof missing);
}

dl_status dl_fft_check(cufftResult r, const char *what) {
    return r == CUFFT_SUCCESS ? DL_OK : dl_fail(DL_ERR_DEVICE, "cuFFT failed in %s: status %d", what, (int)r);
}

static dl_status make(const dl_fft_shape *s, struct kept *k) {
    long long n[DL_FFT_RANK], in[DL_FFT_RANK], out[DL_FFT_RANK];
    for (int i = 0; i < s->rank; i++) n[i] = in[i] = out[i] = s->n[i];
    const int last = s->rank - 1;
    if (s->from != s->to) (s->from == s->in ? out : in)[last] = s->n[last] / 2 + 1;
    k->shape = *s;
    DL_TRY(dl_fft_check(calls.cufftCreate(&k->plan), "making a plan"));
    cufftResult r = calls.cufftSetAutoAllocation(k->plan, 0);
    if (r == CUFFT_SUCCESS)
        r = calls.cufftXtMakePlanMany(k->plan, s->rank, n, in, s->step, s->next_in, s->from, out, s->step, s->next_out,
                                      s->to, s->batch, &k->bytes,
                                      s->from == s->to   ? s->from
                                      : s->from == s->in ? s->to
                                                         : s->from);
    if (r == CUFFT_SUCCESS) return DL_OK;
    calls.cufftDestroy(k->plan);
    return dl_fft_check(r, "making a plan");
}

static bool same(const dl_fft_shape *a, const dl_fft_shape *b) {
    return a->device == b->device && a->from == b->from && a->to == b->to && a->rank == b->rank &&
           !memcmp(a->n, b->n, sizeof a->n) && a->step == b->step && a->batch == b->batch && a->next_in == b->next_in &&
           a->next_out == b->next_out;
}

/* The plan becomes the first of those kept; the lock is held. */
static dl_status find(const dl_fft_shape *s) {
    struct kept k;
    int i = 0;
    while (i < nkept && !same(&kept[i].shape, s)) i++;
    if (i < nkept) {
        k = kept[i];
    } else {
        DL_TRY(make(s, &k));
        if (nkept == KEPT)
            calls.cufftDestroy(kept[i = KEPT - 1].plan);
        else
            nkept++;
    }
    memmove(kept + 1, kept, (size_t)i * sizeof *kept);
    kept[0] = k;
    return DL_OK;
}

static dl_status ready(dl_gpu *g, const dl_fft_shape *s, dl_fft_use *u) {
    pthread_once(&once, open_library);
    if (*missing)
        return dl_fail_hint(DL_ERR_UNSUPPORTED,
                            "install cuFFT of the CUDA toolkit, or add its folder to LD_LIBRARY_PATH",
                            "Fourier transforms on the GPU need cuFFT: %s", missing);
    DL_TRY(find(s));
    *u = (dl_fft_use){&calls, kept[0].plan, g, dl_gpu_take(g, kept[0].bytes + 1)};
    if (!u->work) return dl_failed();
    cufftResult r = calls.cufftSetStream(u->plan, g->stream);
    if (r == CUFFT_SUCCESS) r = calls.cufftSetWorkArea(u->plan, u->work);
    if (r == CUFFT_SUCCESS) return DL_OK;
    dl_gpu_drop(g, u->work);
    return dl_fft_check(r, "starting");
}

dl_status dl_fft_begin(dl_gpu *g, const dl_fft_shape *s, dl_fft_use *u) {
    DL_TRY(dl_gpu_no_capture(g, "a Fourier transform"));
    pthread_mutex_lock(&lock);
    dl_status st = ready(g, s, u);
    if (st != DL_OK) pthread_mutex_unlock(&lock);
    return st;
}

void dl_fft_end(dl_fft_use *u) {
    dl_gpu_drop(u->gpu, u->work);
    pthread_mutex_unlock(&lock);
}
