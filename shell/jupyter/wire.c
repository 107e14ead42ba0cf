/* The connection file, frames and signatures of the Jupyter protocol. */
#include "jupyter/wire.h"
#include "lang/value.h"
#include "view/console.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#define DELIMITER "<IDS|MSG>"

/* ---------------------------------------------------------------- the connection file */

static int copy_text(const json_t *file, const char *name, const char *otherwise, char *out, size_t size) {
    const char *s = json_string_value(json_object_get(file, name));
    if (!s) s = otherwise;
    if (!s || strlen(s) >= size) return 0;
    strcpy(out, s);
    return 1;
}

int jup_connection_read(const char *path, jup_connection *c) {
    static const char *const ports[JUP_CHANNELS] = {"shell_port", "control_port", "stdin_port", "hb_port",
                                                    "iopub_port"};
    json_error_t error;
    json_t *file = json_load_file(path, 0, &error);
    if (!file) {
        dlsh_console_say("cannot read the connection file \"%s\": %s", path, error.text);
        return 0;
    }
    char scheme[48];
    const char *missing = NULL;
    if (!copy_text(file, "transport", "tcp", c->transport, sizeof c->transport)) missing = "transport";
    if (!copy_text(file, "ip", "127.0.0.1", c->ip, sizeof c->ip)) missing = "ip";
    if (!copy_text(file, "key", "", c->key, sizeof c->key)) missing = "key";
    if (!copy_text(file, "signature_scheme", "hmac-sha256", scheme, sizeof scheme)) missing = "signature_scheme";
    for (int i = 0; i < JUP_CHANNELS; i++) {
        json_int_t port = json_integer_value(json_object_get(file, ports[i]));
        if (port < 1 || port > 65535) missing = ports[i];
        c->port[i] = (int)port;
    }
    json_decref(file);
    if (!missing && (strncmp(scheme, "hmac-", 5) || strlen(scheme + 5) >= sizeof c->digest))
        missing = "signature_scheme";
    if (missing) {
        dlsh_console_say("the connection file \"%s\" has no valid \"%s\"", path, missing);
        return 0;
    }
    strcpy(c->digest, scheme + 5);
    return 1;
}

void jup_connection_address(const jup_connection *c, int channel, char *out, size_t size) {
    const char *form = !strcmp(c->transport, "ipc")            ? "%s://%s-%d"
                       : strchr(c->ip, ':') && c->ip[0] != '[' ? "%s://[%s]:%d"
                                                               : "%s://%s:%d";
    snprintf(out, size, form, c->transport, c->ip, c->port[channel]);
}

/* ---------------------------------------------------------------- signatures */

struct jup_signer {
    EVP_MAC *mac;
    EVP_MAC_CTX *ready; /* with the key; copied for each message */
};

jup_signer *jup_signer_new(const char *digest, const char *key) {
    jup_signer *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    if (!*key) return s;
    char name[32];
    snprintf(name, sizeof name, "%s", digest);
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0),
                           OSSL_PARAM_construct_end()};
    s->mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    s->ready = s->mac ? EVP_MAC_CTX_new(s->mac) : NULL;
    if (!s->ready || !EVP_MAC_init(s->ready, (const unsigned char *)key, strlen(key), params)) {
        dlsh_console_say("messages cannot be signed with hmac-%s", digest);
        jup_signer_free(s);
        return NULL;
    }
    return s;
}

void jup_signer_free(jup_signer *s) {
    if (!s) return;
    EVP_MAC_CTX_free(s->ready);
    EVP_MAC_free(s->mac);
    free(s);
}

static void put_hex(char *out, const unsigned char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

void jup_sign(jup_signer *s, const jup_frame signed_frames[4], char out[JUP_SIGNATURE]) {
    unsigned char digest[64];
    size_t n = 0;
    out[0] = 0;
    if (!s->ready) return;
    EVP_MAC_CTX *c = EVP_MAC_CTX_dup(s->ready);
    int good = c != NULL;
    for (int i = 0; i < 4 && good; i++)
        good = EVP_MAC_update(c, (const unsigned char *)signed_frames[i].s, signed_frames[i].n);
    if (good) good = EVP_MAC_final(c, digest, &n, sizeof digest);
    EVP_MAC_CTX_free(c);
    if (good)
        put_hex(out, digest, n);
    else
        strcpy(out, "?"); /* matches nothing */
}

/* ---------------------------------------------------------------- requests */

enum { HEADER = 2, CONTENT = 5, PARTS = 6 }; /* frames after the delimiter, itself 0 */

static json_t *read_object(jup_frame f) {
    json_t *j = json_loadb(f.s, f.n, JSON_ALLOW_NUL, NULL);
    if (json_is_object(j)) return j;
    json_decref(j);
    return NULL;
}

static const char *read_parts(jup_request *r, jup_signer *s) {
    const jup_frame *d = r->frames + r->nids;
    char signature[JUP_SIGNATURE];
    if (r->nids == r->nframes) return "it has no delimiter";
    if (r->nframes - r->nids < PARTS) return "frames are missing";
    jup_sign(s, d + HEADER, signature);
    if (d[1].n != strlen(signature) || CRYPTO_memcmp(d[1].s, signature, d[1].n)) return "its signature is wrong";
    r->header = read_object(d[HEADER]);
    r->content = read_object(d[CONTENT]);
    if (!r->header || !r->content) return "its header or content is not JSON object";
    r->type = json_string_value(json_object_get(r->header, "msg_type"));
    r->id = json_string_value(json_object_get(r->header, "msg_id"));
    return r->type && r->id ? NULL : "its header has no msg_type or msg_id";
}

jup_request *jup_request_read(jup_signer *s, int channel, jup_frame *frames, int n, const char **why) {
    jup_request *r = calloc(1, sizeof *r);
    if (!r) {
        for (int i = 0; i < n; i++) free(frames[i].s);
        free(frames);
        *why = "there is no memory for it";
        return NULL;
    }
    *r = (jup_request){.refs = 1, .channel = channel, .nframes = n, .frames = frames, .arrived = dl_seconds()};
    while (r->nids < n &&
           (frames[r->nids].n != strlen(DELIMITER) || memcmp(frames[r->nids].s, DELIMITER, frames[r->nids].n)))
        r->nids++;
    *why = read_parts(r, s);
    if (!*why) return r;
    jup_request_unref(r);
    return NULL;
}

jup_request *jup_request_ref(jup_request *r) {
    if (r) __atomic_add_fetch(&r->refs, 1, __ATOMIC_RELAXED);
    return r;
}

void jup_request_unref(jup_request *r) {
    if (!r || __atomic_sub_fetch(&r->refs, 1, __ATOMIC_ACQ_REL)) return;
    json_decref(r->header);
    json_decref(r->content);
    for (int i = 0; i < r->nframes; i++) free(r->frames[i].s);
    free(r->frames);
    free(r);
}

/* The header as it came, for the parent header of what it causes. "{}" for NULL. */
static jup_frame header_of(const jup_request *r) {
    static char empty[] = "{}";
    return r ? r->frames[r->nids + HEADER] : (jup_frame){empty, 2};
}

int jup_content_bool(const jup_request *r, const char *name, int otherwise) {
    const json_t *j = json_object_get(r->content, name);
    return json_is_boolean(j) ? json_is_true(j) : otherwise;
}

const char *jup_content_text(const jup_request *r, const char *name, size_t *len) {
    const json_t *j = json_object_get(r->content, name);
    *len = json_string_length(j);
    return json_string_value(j);
}

long jup_content_int(const jup_request *r, const char *name, long otherwise) {
    const json_t *j = json_object_get(r->content, name);
    return json_is_integer(j) ? (long)json_integer_value(j) : otherwise;
}

/* ---------------------------------------------------------------- messages */

void jup_writer_init(jup_writer *w, jup_signer *signer) {
    unsigned char bytes[16];
    *w = (jup_writer){.signer = signer};
    if (RAND_bytes(bytes, sizeof bytes) != 1) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        long seed[2] = {(long)t.tv_sec ^ t.tv_nsec << 24, (long)getpid()};
        memcpy(bytes, seed, sizeof bytes);
    }
    put_hex(w->session, bytes, sizeof bytes);
}

static jup_frame frame_of(char *s) { return (jup_frame){s, strlen(s)}; }

void jup_write(jup_writer *w, const jup_request *parent, const char *type, jup_frame metadata, jup_frame content,
               jup_frame out[JUP_OUT_FRAMES]) {
    static char delimiter[] = DELIMITER, empty[] = "{}";
    struct timespec t;
    struct tm tm;
    char date[40];
    clock_gettime(CLOCK_REALTIME, &t);
    gmtime_r(&t.tv_sec, &tm);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(w->header, sizeof w->header,
             "{\"msg_id\":\"%s_%ld\",\"session\":\"%s\",\"username\":\"dlsh\",\"date\":\"%s.%06ldZ\","
             "\"msg_type\":\"%s\",\"version\":\"" JUP_PROTOCOL "\"}",
             w->session, ++w->sent, w->session, date, t.tv_nsec / 1000, type);
    out[2] = frame_of(w->header);
    out[3] = header_of(parent);
    out[4] = metadata.s ? metadata : frame_of(empty);
    out[5] = content;
    jup_sign(w->signer, out + 2, w->signature);
    out[0] = frame_of(delimiter);
    out[1] = frame_of(w->signature);
}

/* ---------------------------------------------------------------- text */

json_t *jup_text(const char *s, size_t n) {
    json_t *whole = json_stringn(s ? s : "", n); /* NULL when it is not UTF-8 */
    if (whole) return whole;
    DLSH_SCOPED_BUF b = {0};
    for (size_t i = 0, len; i < n; i += len ? len : 1) {
        len = dlsh_utf8(s + i, n - i);
        dlsh_buf_add(&b, len ? s + i : "\xef\xbf\xbd", len ? len : 3);
    }
    if (!b.failed) whole = json_stringn(dlsh_buf_text(&b), b.n);
    return whole;
}

size_t jup_text_unfinished(const char *s, size_t n) {
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        if ((s[n - back] & 0xc0) == 0x80) continue;
        /* a character that is valid with the lowest or the highest bytes behind it */
        char low[4] = "\x80\x80\x80\x80", high[4] = "\xbf\xbf\xbf\xbf";
        memcpy(low, s + n - back, back);
        memcpy(high, s + n - back, back);
        return dlsh_utf8(low, 4) > back || dlsh_utf8(high, 4) > back ? back : 0;
    }
    return 0;
}

size_t jup_bytes_of(const char *s, size_t n, long points) {
    size_t i = 0;
    for (; i < n && points > 0; points--)
        for (i++; i < n && ((unsigned char)s[i] & 0xc0) == 0x80;) i++;
    return i;
}

long jup_points_of(const char *s, size_t bytes) {
    long points = 0;
    for (size_t i = 0; i < bytes; i++) points += ((unsigned char)s[i] & 0xc0) != 0x80;
    return points;
}
