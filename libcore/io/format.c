/* The table of file formats, and choosing from it by name and by content. */
#include "io/format.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

typedef struct row {
    const char *name, *endings;
    unsigned writes, reads;
    const char *advice;
} row;

static const row rows[DL_NFORMAT] = {
#define FORMAT(id, name, endings, writes, reads, advice) [DL_FORMAT_##id] = {name, endings, writes, reads, advice},
#include "io/formats.def"
#undef FORMAT
};

static const struct {
    dl_content content;
    const char *what;
} contents[] = {{DL_HOLDS_NET, "a net"},       {DL_HOLDS_TRAINER, "the state of a training"},
                {DL_HOLDS_TENSOR, "a tensor"}, {DL_HOLDS_RECORD, "a record"},
                {DL_HOLDS_ROWS, "a table"},    {DL_HOLDS_PLOT, "a plot"},
                {DL_HOLDS_GRAPH, "a graph"},   {DL_HOLDS_CELLS, "a table of columns"}};

/* What files begin with. Safetensors and IDX have no word of their own and are looked at apart. */
static const struct {
    dl_format format;
    const char *bytes;
    int n;
} magics[] = {{DL_FORMAT_NPY, "\x93NUMPY", 6},
              {DL_FORMAT_NPZ, "PK\3\4", 4},
              {DL_FORMAT_NPZ, "PK\5\6", 4},
              {DL_FORMAT_PNG, "\x89PNG\r\n\x1a\n", 8},
              {DL_FORMAT_HDF5, "\x89HDF\r\n\x1a\n", 8},
              {DL_FORMAT_PARQUET, "PAR1", 4},
              {DL_FORMAT_SQLITE, "SQLite format 3", 16},
              {DL_FORMAT_GGUF, "GGUF", 4},
              {DL_FORMAT_MATLAB, "MATLAB 5.0", 10},
              {DL_FORMAT_JPEG, "\xff\xd8\xff", 3},
              {DL_FORMAT_PDF, "%PDF-", 5},
              {DL_FORMAT_WAV, "RIFF", 4},
              {DL_FORMAT_GZIP, "\x1f\x8b\x08", 3},
              {DL_FORMAT_SVG, "<svg", 4},
              {DL_FORMAT_TORCH, "\x80\x02\x8a\x0al\xfc\x9c\x46", 8}, /* before 1.6 */
              {DL_FORMAT_PICKLE, "\x80\x02}", 3},
              {DL_FORMAT_PICKLE, "\x80\x03", 2},
              {DL_FORMAT_PICKLE, "\x80\x04\x95", 3},
              {DL_FORMAT_PICKLE, "\x80\x05\x95", 3}};

const char *dl_format_name(dl_format f) { return rows[f].name; }

static const char *what_of(dl_content content) {
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++)
        if (contents[i].content == content) return contents[i].what;
    return "this";
}

/* ---------------------------------------------------------------- by name */

/* ".npy" of "a/b.npy"; "" when there is none. A number after a point is not an ending: "step-1.5". */
static const char *ending_of(const char *path) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
    if (!dot || dot == base || !isalpha((unsigned char)dot[1])) return "";
    for (const char *p = dot + 1; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '_') return "";
    return dot;
}

static int has_ending(const row *r, const char *ending) {
    size_t n = strlen(ending);
    for (const char *p = r->endings; *p; p += strspn(p, " ")) {
        size_t k = strcspn(p, " ");
        if (k == n && !strncasecmp(p, ending, n)) return 1;
        p += k;
    }
    return 0;
}

dl_format dl_format_of_name(const char *path) {
    const char *ending = ending_of(path);
    int f = 0;
    while (*ending && f < DL_NFORMAT && !has_ending(&rows[f], ending)) f++;
    return *ending ? (dl_format)f : DL_NFORMAT;
}

/* ".safetensors, .npy or .npz": the endings that hold such contents. */
static void list_endings(unsigned contents_wanted, int reading, char *out, size_t size) {
    const char *found[DL_NFORMAT];
    int n = 0;
    for (int f = 0; f < DL_NFORMAT; f++)
        if ((reading ? rows[f].reads : rows[f].writes) & contents_wanted) found[n++] = rows[f].endings;
    size_t at = 0;
    for (int i = 0; i < n && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%.*s",
                               !i          ? ""
                               : i + 1 < n ? ", "
                                           : " or ",
                               (int)strcspn(found[i], " "), found[i]);
}

static dl_status refuse_write(const char *path, dl_content content, dl_format f) {
    char list[192] = "", hint[384];
    list_endings(content, 0, list, sizeof list);
    const char *advice = f < DL_NFORMAT && !rows[f].writes ? rows[f].advice : ""; /* others are for reading */
    snprintf(hint, sizeof hint, "%s is written as %s%s%s", what_of(content), list, *advice ? "; " : "", advice);
    if (f < DL_NFORMAT)
        return dl_fail_hint(DL_ERR_UNSUPPORTED, hint, "%s cannot be written as %s, which the name \"%s\" asks for",
                            what_of(content), rows[f].name, path);
    if (*ending_of(path))
        return dl_fail_hint(DL_ERR_UNSUPPORTED, hint, "no format is known by the ending \"%s\" of \"%s\"",
                            ending_of(path), path);
    return dl_fail_hint(DL_ERR_UNSUPPORTED, hint, "the name \"%s\" has no ending that tells its format", path);
}

dl_status dl_format_to_write(const char *path, dl_content content, dl_format *out) {
    if (!path || !*path) return dl_fail(DL_ERR_VALUE, "a file needs a name");
    dl_format f = dl_format_of_name(path);
    int pictures = content == DL_HOLDS_PLOT || content == DL_HOLDS_GRAPH;
    if (f == DL_NFORMAT && !*ending_of(path) && !pictures)
        for (f = 0; f < DL_NFORMAT && !(rows[f].writes & content);) f++;
    if (f == DL_NFORMAT || !(rows[f].writes & content)) return refuse_write(path, content, f);
    *out = f;
    return DL_OK;
}

const char *dl_format_for(const char *path, dl_content content) {
    dl_format f = DL_NFORMAT;
    return dl_format_to_write(path, content, &f) == DL_OK ? rows[f].name : NULL;
}

/* ---------------------------------------------------------------- by content */

static int is_safetensors(const uint8_t *p, size_t n) {
    return n > 8 && p[8] == '{' && !p[5] && !p[6] && !p[7]; /* the length of a header, below 2^40 */
}

static int is_idx(const uint8_t *p, size_t n) {
    return n >= 4 && !p[0] && !p[1] && p[2] >= 8 && p[2] <= 14 && p[3] >= 1 && p[3] <= 8;
}

dl_format dl_format_of_bytes(const void *first, size_t n) {
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
        if (n >= (size_t)magics[i].n && !memcmp(first, magics[i].bytes, (size_t)magics[i].n)) return magics[i].format;
    if (is_safetensors(first, n)) return DL_FORMAT_SAFETENSORS;
    return is_idx(first, n) ? DL_FORMAT_IDX : DL_NFORMAT;
}

static const char *first_ending(dl_format f, char out[32]) {
    snprintf(out, 32, "%.*s", (int)strcspn(rows[f].endings, " "), rows[f].endings);
    return out;
}

static dl_status mismatch(const char *path, dl_format wanted, dl_format is) {
    char ending[32], hint[256];
    if (rows[is].reads)
        snprintf(hint, sizeof hint, "give it a name that ends in %s", first_ending(is, ending));
    else
        snprintf(hint, sizeof hint, "%s", rows[is].advice);
    return dl_fail_hint(DL_ERR_FORMAT, hint, "'%s' is not %s: by its first bytes it is %s", path, rows[wanted].name,
                        is == DL_FORMAT_NPZ ? "a zip archive, as .npz is" : rows[is].name);
}

dl_status dl_format_not_other(const char *path, dl_format wanted, const void *first, size_t n) {
    dl_format is = dl_format_of_bytes(first, n);
    return is == DL_NFORMAT || is == wanted ? DL_OK : mismatch(path, wanted, is);
}

dl_status dl_format_to_read(const char *path, const void *first, size_t n, dl_format *out) {
    enum { TENSORS = DL_HOLDS_TENSOR | DL_HOLDS_RECORD };
    dl_format named = dl_format_of_name(path), is = dl_format_of_bytes(first, n);
    int archive = is == DL_FORMAT_NPZ && named == DL_FORMAT_TORCH;
    if (named < DL_NFORMAT && is < DL_NFORMAT && named != is && !archive) return mismatch(path, named, is);
    *out = archive || is == DL_NFORMAT ? named : is;
    if (*out < DL_NFORMAT && rows[*out].reads & TENSORS) return DL_OK;
    char list[192] = "", hint[384];
    list_endings(TENSORS, 1, list, sizeof list);
    const char *advice = *out < DL_NFORMAT ? rows[*out].advice : "";
    snprintf(hint, sizeof hint, "%s files are read%s%s", list, *advice ? "; " : "", advice);
    if (*out < DL_NFORMAT)
        return dl_fail_hint(DL_ERR_UNSUPPORTED, hint, "'%s' is %s, which is not read", path, rows[*out].name);
    return dl_fail_hint(DL_ERR_FORMAT, hint, "'%s' is of no format that is known", path);
}
