/* WAV: RIFF chunks of which "fmt " says what the samples in "data" are. Format: Microsoft's Multimedia Programming
 * Interface 1.0, and WAVEFORMATEXTENSIBLE. Integers become f32 in -1..1, as torchaudio.load gives them. */
#include "io/wav.h"

#include <stdlib.h>
#include <string.h>

#include "core/scope.h"
#include "core/tensor.h"
#include "io/format.h"
#include "io/stored.h"

enum { PCM = 1, FLOATS = 3, EXTENSIBLE = 0xfffe, MOST_CHANNELS = 256, CHUNK = 1 << 12 };

typedef struct wav {
    const dl_input *in;
    int format, channels, bytes; /* bytes of a sample of one channel */
    long rate, frames;
    uint64_t at; /* where the samples begin */
} wav;

static uint64_t little(const uint8_t *p, int n) {
    uint64_t v = 0;
    for (int i = n - 1; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

static dl_status bad(const wav *w, uint64_t at, const char *what) {
    return dl_fail_hint(DL_ERR_FORMAT, "the file is damaged, was cut off, or is not a WAV file", "%s: byte %llu: %s",
                        w->in->name, (unsigned long long)at, what);
}

static dl_status read_format(wav *w, uint64_t at, uint64_t size) {
    uint8_t b[40] = {0};
    if (size < 16) return bad(w, at, "the description of the samples is too short");
    DL_TRY(dl_input_read(w->in, at, b, size < sizeof b ? (size_t)size : sizeof b));
    int bits = (int)little(b + 14, 2);
    w->format = (int)little(b, 2), w->channels = (int)little(b + 2, 2), w->rate = (long)little(b + 4, 4);
    if (w->format == EXTENSIBLE && size >= 40) w->format = (int)little(b + 24, 2);
    w->bytes = bits / 8;
    int known = w->format == PCM ? bits == 8 || bits == 16 || bits == 24 || bits == 32
                                 : w->format == FLOATS && (bits == 32 || bits == 64);
    if (!known)
        return dl_fail_hint(DL_ERR_UNSUPPORTED, "sox IN.wav -e signed -b 16 OUT.wav writes it as integers",
                            "%s: samples of format %d with %d bits are not read", w->in->name, w->format, bits);
    if (!w->channels || w->channels > MOST_CHANNELS || !w->rate)
        return bad(w, at, "the number of channels or the rate is wrong");
    if ((int)little(b + 12, 2) != w->channels * w->bytes) return bad(w, at + 12, "the size of a frame is wrong");
    return DL_OK;
}

/* Finds "fmt " and "data", in this order; other chunks are passed over. */
static dl_status read_chunks(wav *w) {
    uint8_t b[12];
    if (w->in->size < sizeof b) return bad(w, 0, "the file is too short");
    DL_TRY(dl_input_read(w->in, 0, b, sizeof b));
    if (memcmp(b, "RIFF", 4) || memcmp(b + 8, "WAVE", 4))
        return bad(w, 0, "the file does not begin with RIFF and WAVE");
    for (uint64_t at = 12; w->in->size - at >= 8;) {
        DL_TRY(dl_input_read(w->in, at, b, 8));
        uint64_t size = little(b + 4, 4), left = w->in->size - at - 8;
        if (size > left) return bad(w, at, "a chunk goes on behind the end of the file");
        if (!memcmp(b, "fmt ", 4)) DL_TRY(read_format(w, at + 8, size));
        if (!memcmp(b, "data", 4)) {
            if (!w->channels) return bad(w, at, "the samples come before their description");
            uint64_t frame = (uint64_t)w->channels * (uint64_t)w->bytes;
            if (size % frame) return bad(w, at, "the samples are not a whole number of frames");
            w->frames = (long)(size / frame), w->at = at + 8;
            return DL_OK;
        }
        if (size == left) break;
        at += 8 + size + (size & 1);
        if (at > w->in->size) break;
    }
    return bad(w, w->in->size, "there are no samples");
}

static float sample_of(const wav *w, const uint8_t *p) {
    uint64_t bits = little(p, w->bytes);
    uint32_t low = (uint32_t)bits;
    float f;
    double d;
    if (w->format == PCM && w->bytes == 1) return ((float)bits - 128) / 128;
    if (w->format == PCM) return (float)((double)(int32_t)(low << (32 - 8 * w->bytes)) / 2147483648.0);
    memcpy(&f, &low, sizeof f);
    memcpy(&d, &bits, sizeof d);
    return w->bytes == 4 ? f : (float)d;
}

static dl_tensor *read_samples(const wav *w, int device) {
    long shape[2] = {w->channels, w->frames};
    size_t frame = (size_t)w->channels * (size_t)w->bytes;
    DL_OWNED dl_tensor *t = dl_tensor_empty(2, shape, DL_F32, 0);
    uint8_t *in = malloc(CHUNK * frame);
    dl_status st = !t   ? dl_failed()
                   : in ? DL_OK
                        : dl_fail(DL_ERR_MEMORY, "no memory for the samples of '%s'", w->in->name);
    for (long i = 0, n; st == DL_OK && i < w->frames; i += n) {
        n = w->frames - i < CHUNK ? w->frames - i : CHUNK;
        st = dl_input_read(w->in, w->at + (uint64_t)i * frame, in, (size_t)n * frame);
        for (long k = 0; st == DL_OK && k < n * w->channels; k++)
            ((float *)dl_ptr(t))[k % w->channels * w->frames + i + k / w->channels] = sample_of(w, in + k * w->bytes);
    }
    free(in);
    return st == DL_OK ? dl_to_device(t, device) : NULL;
}

static dl_status record_of(const wav *w, int device, dl_stored *v) {
    DL_TRY(dl_stored_set_items(v, DL_STORED_RECORD, 2));
    DL_TRY(dl_stored_set_key(v, 0, w->in->name, "rate", 4));
    DL_TRY(dl_stored_set_key(v, 1, w->in->name, "samples", 7));
    dl_stored *rate = (dl_stored *)&v->items[0], *samples = (dl_stored *)&v->items[1];
    rate->kind = DL_STORED_INT, rate->i = w->rate;
    samples->kind = DL_STORED_TENSOR;
    samples->tensor = read_samples(w, device);
    return samples->tensor ? DL_OK : dl_failed();
}

dl_tensor_file *dl_wav_from(const dl_input *in, int device) {
    wav w = {.in = in};
    dl_stored v = {0};
    if (read_chunks(&w) == DL_OK && record_of(&w, device, &v) == DL_OK)
        return dl_stored_file(&v, dl_format_name(DL_FORMAT_WAV));
    dl_stored_clear(&v);
    return NULL;
}
