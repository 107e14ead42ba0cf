/* main() of a fuzz target without libFuzzer: runs every file of the directories given, in name order, then the empty
 * input. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "fuzz/fuzz.h"

static int replay(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) return perror(path), 1;
    uint8_t *buf = NULL;
    size_t n = 0, cap = 0;
    for (size_t got = 1; got;) {
        if (n == cap) {
            uint8_t *more = realloc(buf, cap = cap ? 2 * cap : 4096);
            if (!more) {
                free(buf);
                fclose(f);
                return perror(path), 1;
            }
            buf = more;
        }
        n += got = fread(buf + n, 1, cap - n, f);
    }
    fclose(f);
    LLVMFuzzerTestOneInput(buf, n);
    free(buf);
    return 0;
}

static int replay_dir(const char *dir, int *count) {
    struct dirent **entries;
    int n = scandir(dir, &entries, NULL, alphasort), bad = 0;
    if (n < 0) return perror(dir), 1;
    for (int i = 0; i < n; i++) {
        char path[4096];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", dir, entries[i]->d_name);
        free(entries[i]);
        if (stat(path, &st) || !S_ISREG(st.st_mode)) continue;
        bad |= replay(path);
        ++*count;
    }
    free(entries);
    return bad;
}

int main(int argc, char **argv) {
    int count = 0, bad = 0;
    for (int i = 1; i < argc; i++) bad |= replay_dir(argv[i], &count);
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    printf("%d inputs replayed\n", count);
    return bad;
}
