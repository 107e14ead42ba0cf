/* Fuzz target: ring files of processes that have ended. The first byte chooses: the rest is the image of a ring file
 * (even), or a list of changes of a sound one (odd: two bytes of length to cut off, then offset, offset, byte ...), of
 * which no untouched record may be lost. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "track/ring.h"
#include "track/whoami.h"

enum { CAPACITY = 64, NAMES = 3, RECORDS_END = DL_RING_PAGE + CAPACITY * 32 };

static uint8_t sound[8192];
static size_t sound_size;

/* A ring that has wrapped once: 20 points committed, then 64 waiting with the values 20 to 83. */
static void make_sound(void) {
    char path[64];
    dl_ring r;
    uint64_t at;
    snprintf(path, sizeof path, "/tmp/dl-fuzz-ring-%ld", (long)getpid());
    const dl_whoami owner = {"host", "boot", 1, 2};
    if (dl_ring_create(&r, path, CAPACITY, &owner) != DL_OK) abort();
    for (uint32_t i = 0; i < NAMES; i++)
        if (dl_ring_add_name(&r, i, 1, i ? "odd" : "train/loss") != DL_OK) abort();
    for (int i = 0; i < 20 + CAPACITY; i++) {
        if (i == 20) dl_ring_advance(&r, 20);
        if (!dl_ring_push(&r, (uint32_t)i % NAMES, i, i, i, &at)) abort();
    }
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, sound, sizeof sound);
    if (n < RECORDS_END) abort();
    sound_size = (size_t)n;
    close(fd);
    dl_ring_close(&r);
    unlink(path);
}

typedef struct seen {
    size_t bytes;
    int got[20 + CAPACITY];
} seen;

static dl_status see_name(void *ctx, uint32_t index, int64_t run, const char *key) {
    ((seen *)ctx)->bytes += strlen(key) + index + (uint64_t)run;
    return DL_OK;
}

static dl_status see_record(void *ctx, const dl_ring_record *r) {
    seen *s = ctx;
    if (r->step >= 0 && r->step < 20 + CAPACITY && r->value == (double)r->step) s->got[r->step]++;
    return DL_OK;
}

static seen parse(const uint8_t *data, size_t size) {
    seen s = {0};
    int damaged;
    const dl_ring_visitor v = {&s, see_name, see_record};
    if (dl_ring_parse(data, size, &v, &damaged) != DL_OK) abort();
    return s;
}

static void change(const uint8_t *data, size_t size) {
    if (!sound_size) make_sound();
    uint8_t *image = malloc(sound_size); /* a block of exactly this size, so that reading past its end is detected */
    int cursors = 0;
    if (!image) return;
    memcpy(image, sound, sound_size);
    for (const uint8_t *p = data + 2; p + 3 <= data + size; p += 3) {
        size_t at = (size_t)(p[0] | p[1] << 8) % sound_size;
        image[at] = p[2];
        cursors |= (at >= 512 && at < 520) || (at >= 1024 && at < 1032);
    }
    size_t left = sound_size - (size_t)(data[0] | data[1] << 8) % sound_size;
    uint8_t *cut = realloc(image, left);
    seen s = parse(cut, left);
    for (int i = 20; i < 20 + CAPACITY && !cursors; i++) {
        size_t at = DL_RING_PAGE + (size_t)(i % CAPACITY) * 32;
        if (at + 32 <= left && !memcmp(cut + at, sound + at, 32) && s.got[i] != 1) abort();
    }
    free(cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size && !(*data & 1))
        parse(data + 1, size - 1);
    else if (size >= 3)
        change(data + 1, size - 1);
    return 0;
}
