/* The spill: points for which the ring has no room while the database takes none, in files of records, appended in the
 * order of their pushes and committed after those of the ring. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "core/error.h"
#include "track/ring.h"

static void path_beside(const char *ring, char out[4104]) { snprintf(out, 4104, "%.4095s.more", ring); }

/* A name in the folder for temporary files, with what tells the ring from others. 0: it does not fit the header. */
static int path_away(const dl_ring *r, char out[4104]) {
    const char *folder = getenv("TMPDIR"), *own = strstr(r->path, "-ring-"), *next = own;
    while (next && (next = strstr(next + 1, "-ring-"))) own = next;
    int n = snprintf(out, 4104, "%s/dlsh%s.more", folder && *folder ? folder : "/tmp", own ? own : "");
    return n < (int)sizeof r->header->spill;
}

/* ---------------------------------------------------------------- pushing */

int dl_spill_on(const dl_ring *r) { return __atomic_load_n(&r->spill.on, __ATOMIC_RELAXED); }

static dl_status fail_to_write(const dl_spill_file *f) {
    return dl_fail(DL_ERR_STORE, "cannot write %.300s: %s", f->path, strerror(errno));
}

static dl_status make_file(dl_ring *r, int i) {
    dl_spill_file *f = &r->spill.file[i];
    if (!i)
        path_beside(r->path, f->path);
    else if (!path_away(r, f->path))
        return dl_fail(DL_ERR_STORE, "the path of the folder for temporary files is too long");
    f->fd = open(f->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, i ? 0600 : 0666);
    if (f->fd < 0) return fail_to_write(f);
    if (i) strcpy(r->header->spill, f->path);
    return DL_OK;
}

static dl_status append(dl_ring *r, int i, const dl_ring_record *rec) {
    dl_spill_file *f = &r->spill.file[i];
    struct rlimit limit;
    if (f->fd < 0) DL_TRY(make_file(r, i));
    if (f->size + sizeof *rec > DL_SPILL_MOST)
        return dl_fail(DL_ERR_STORE, "%.300s has %d MiB, the most it may have", f->path, DL_SPILL_MOST >> 20);
    /* beyond the limit the kernel would kill the process with SIGXFSZ */
    if (!(f->size & 0xfffff) && !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < f->size + (1 << 20))
        errno = EFBIG;
    else if (pwrite(f->fd, rec, sizeof *rec, (off_t)f->size) == (ssize_t)sizeof *rec) {
        __atomic_store_n(&f->size, f->size + sizeof *rec, __ATOMIC_RELEASE);
        return DL_OK;
    } else if (!errno) {
        errno = ENOSPC;
    }
    return fail_to_write(f);
}

dl_status dl_spill_push(dl_ring *r, uint32_t series, int64_t step, double value, int64_t t_us) {
    dl_ring_record rec;
    dl_spill *x = &r->spill;
    dl_ring_stamp(&rec, series, step, value, t_us);
    pthread_mutex_lock(&x->lock);
    errno = 0;
    dl_status st = append(r, x->last, &rec);
    while (st != DL_OK && x->last + 1 < DL_SPILL_FILES) {
        dl_error_clear();
        st = append(r, ++x->last, &rec);
    }
    if (st == DL_OK) {
        __atomic_fetch_add(&x->in, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&x->on, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&x->lock);
    return st;
}

const char *dl_spill_path(dl_ring *r) {
    pthread_mutex_lock(&r->spill.lock);
    const char *path = r->spill.file[r->spill.last].path;
    pthread_mutex_unlock(&r->spill.lock);
    return path;
}

/* ---------------------------------------------------------------- committing */

uint64_t dl_ring_pushed(const dl_ring *r) { return dl_ring_head(r) + __atomic_load_n(&r->spill.in, __ATOMIC_RELAXED); }
uint64_t dl_ring_committed(const dl_ring *r) {
    return dl_ring_tail(r) + __atomic_load_n(&r->spill.out, __ATOMIC_RELAXED);
}

uint64_t dl_spill_left(dl_ring *r) {
    return (__atomic_load_n(&r->spill.in, __ATOMIC_RELAXED) - __atomic_load_n(&r->spill.out, __ATOMIC_RELAXED)) *
           sizeof(dl_ring_record);
}

/* The first file with points that are not committed, NULL: none. */
static dl_spill_file *oldest(dl_spill *x) {
    for (int i = 0; i < DL_SPILL_FILES; i++)
        if (x->file[i].done < __atomic_load_n(&x->file[i].size, __ATOMIC_ACQUIRE)) return &x->file[i];
    return NULL;
}

dl_status dl_spill_peek(dl_ring *r, dl_ring_record *out, uint64_t *n) {
    dl_spill_file *f = oldest(&r->spill);
    uint64_t most = *n;
    *n = 0;
    if (!f) return DL_OK;
    uint64_t ready = (__atomic_load_n(&f->size, __ATOMIC_ACQUIRE) - f->done) / sizeof *out;
    if (ready < most) most = ready;
    ssize_t got = pread(f->fd, out, most * sizeof *out, (off_t)f->done);
    if (got < (ssize_t)sizeof *out)
        return dl_fail(DL_ERR_IO, "cannot read %.300s: %s", f->path, got < 0 ? strerror(errno) : "it was cut");
    *n = (uint64_t)got / sizeof *out;
    for (uint64_t i = 0; i < *n; i++) out[i].stamp = (uint32_t)i;
    return DL_OK;
}

static void begin_anew(dl_ring *r) {
    dl_spill *x = &r->spill;
    for (int i = 0; i < DL_SPILL_FILES; i++) {
        dl_spill_file *f = &x->file[i];
        if (f->fd >= 0 && f->size && ftruncate(f->fd, 0)) continue; /* it is overwritten */
        r->header->spilled[i] = 0;
    }
    for (int i = 0; i < DL_SPILL_FILES; i++) x->file[i].done = x->file[i].size = 0;
    x->last = 0;
    __atomic_store_n(&x->on, 0, __ATOMIC_RELEASE);
}

void dl_spill_advance(dl_ring *r, uint64_t n) {
    dl_spill *x = &r->spill;
    dl_spill_file *f = oldest(x);
    if (!f) return;
    pthread_mutex_lock(&x->lock);
    f->done += n * sizeof(dl_ring_record);
    r->header->spilled[f - x->file] = f->done;
    __atomic_fetch_add(&x->out, n, __ATOMIC_RELAXED);
    if (!oldest(x)) begin_anew(r);
    pthread_mutex_unlock(&x->lock);
}

void dl_spill_follow(dl_ring *r) {
    dl_spill_file *f = &r->spill.file[0];
    char path[sizeof f->path];
    path_beside(r->path, path);
    pthread_mutex_lock(&r->spill.lock);
    if (f->fd >= 0 && !rename(f->path, path)) strcpy(f->path, path);
    pthread_mutex_unlock(&r->spill.lock);
}

void dl_spill_close(dl_ring *r) {
    for (int i = 0; i < DL_SPILL_FILES; i++) {
        dl_spill_file *f = &r->spill.file[i];
        if (f->fd < 0) continue;
        if (f->done >= f->size) unlink(f->path);
        close(f->fd);
        f->fd = -1;
    }
    pthread_mutex_destroy(&r->spill.lock);
}

/* ---------------------------------------------------------------- what a process left */

static void header_of(const void *ring, uint64_t size, dl_ring_header *h) {
    *h = (dl_ring_header){0};
    memcpy(h, ring, size < sizeof *h ? size : sizeof *h);
    h->spill[sizeof h->spill - 1] = 0;
}

static dl_status parse_file(int fd, uint64_t from, const dl_ring_visitor *v) {
    enum { EACH = 4096 };
    dl_ring_record *recs = malloc(EACH * sizeof *recs);
    dl_status st = recs ? DL_OK : dl_fail(DL_ERR_MEMORY, "no memory for points");
    for (ssize_t got; st == DL_OK && (got = pread(fd, recs, EACH * sizeof *recs, (off_t)from)) > 0;) {
        const ssize_t n = got / (ssize_t)sizeof *recs;
        for (ssize_t i = 0; i < n && st == DL_OK; i++)
            if (dl_ring_is_whole(&recs[i])) st = v->record(v->ctx, &recs[i]);
        if (!n) break; /* a record that was being written */
        from += (uint64_t)n * sizeof *recs;
    }
    free(recs);
    return st;
}

dl_status dl_spill_parse(const char *path, const void *ring, uint64_t size, const dl_ring_visitor *v,
                         char missing[300]) {
    dl_ring_header h;
    char name[4104];
    header_of(ring, size, &h);
    missing[0] = 0;
    path_beside(path, name);
    for (int i = 0; i < DL_SPILL_FILES; i++) {
        const char *file = i ? h.spill : name;
        int fd = *file ? open(file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -1;
        if (fd >= 0) {
            dl_status st = parse_file(fd, h.spilled[i] / sizeof(dl_ring_record) * sizeof(dl_ring_record), v);
            close(fd);
            DL_TRY(st);
        } else if (i && *file) {
            snprintf(missing, 300, "%.299s", file);
        }
    }
    return DL_OK;
}

void dl_spill_remove(const char *path, const void *ring, uint64_t size) {
    dl_ring_header h;
    char name[4104];
    header_of(ring, size, &h);
    path_beside(path, name);
    unlink(name);
    if (*h.spill) unlink(h.spill);
}
