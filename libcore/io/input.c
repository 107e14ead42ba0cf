/* Reading at places of a file or of memory. */
#include "io/input.h"
#include "io/nearest_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

dl_status dl_input_open(dl_input *s, const char *path) {
    struct stat info;
    *s = (dl_input){.name = path, .fd = -1};
    if (!path || !*path) return dl_fail(DL_ERR_VALUE, "a file needs a name");
    /* opening a FIFO would wait for a writer */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return dl_fail_file("open", path);
    dl_status st = DL_OK;
    if (fstat(fd, &info))
        st = dl_fail_file("read", path);
    else if (!S_ISREG(info.st_mode))
        st = dl_fail(DL_ERR_IO, "'%s' is not a file", path);
    if (st != DL_OK) {
        close(fd);
        return st;
    }
    s->fd = fd, s->size = (uint64_t)info.st_size;
    return DL_OK;
}

dl_input dl_input_memory(const char *name, const void *data, size_t n) {
    return (dl_input){.name = name, .fd = -1, .memory = data, .size = n};
}

dl_status dl_input_read(const dl_input *s, uint64_t at, void *to, size_t n) {
    char *p = to;
    if (at > s->size || n > s->size - at) return dl_fail(DL_ERR_FORMAT, "%s: the file is cut off", s->name);
    if (s->fd < 0) {
        if (n) memcpy(to, s->memory + at, n);
        return DL_OK;
    }
    while (n) {
        ssize_t k = pread(s->fd, p, n < (1u << 30) ? n : 1u << 30, (off_t)at);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return dl_fail_file("read", s->name);
        if (!k) return dl_fail(DL_ERR_IO, "'%s' has become shorter while it was read", s->name);
        p += k, at += (uint64_t)k, n -= (size_t)k;
    }
    return DL_OK;
}

dl_status dl_input_next(void *cursor, void *to, size_t n) {
    dl_input_cursor *c = cursor;
    DL_TRY(dl_input_read(c->in, c->at, to, n));
    c->at += n;
    return DL_OK;
}

void dl_input_close(dl_input *s) {
    if (s->fd >= 0) close(s->fd);
    s->fd = -1;
}
