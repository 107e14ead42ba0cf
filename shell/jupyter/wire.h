/* Messages of the Jupyter protocol on the wire: the connection file, frames, signatures. Knows no sockets and no
 * session. */
#pragma once

#include <stddef.h>

#include "lang/json.h"

#define JUP_PROTOCOL "5.4"

enum jup_channel { JUP_SHELL, JUP_CONTROL, JUP_STDIN, JUP_HEARTBEAT, JUP_IOPUB, JUP_CHANNELS };

/* What the connection file says. */
typedef struct jup_connection {
    char transport[8], ip[128], key[256], digest[32]; /* digest: "sha256" */
    int port[JUP_CHANNELS];
} jup_connection;
/* Reads the file. Returns 0 after a message to standard error. */
int jup_connection_read(const char *path, jup_connection *c);
/* "tcp://127.0.0.1:5555", or "ipc://PATH-1" */
void jup_connection_address(const jup_connection *c, int channel, char *out, size_t size);

/* ---------------------------------------------------------------- signatures */

/* One thread at a time. NULL after a message to standard error: the digest is not known. */
typedef struct jup_signer jup_signer;
jup_signer *jup_signer_new(const char *digest, const char *key);
void jup_signer_free(jup_signer *s);

typedef struct jup_frame {
    char *s;
    size_t n;
} jup_frame;
/* The signature of header, parent header, metadata and content as they stand on the wire, in hexadecimal; empty without
 * a key. */
enum { JUP_SIGNATURE = 129 };
void jup_sign(jup_signer *s, const jup_frame signed_frames[4], char out[JUP_SIGNATURE]);

/* ---------------------------------------------------------------- requests */

/* A message that came in. Counted by reference, across threads: outputs point to the request that caused them. */
typedef struct jup_request {
    struct jup_request *next; /* in a queue */
    int refs, channel;
    int nframes, nids;
    jup_frame *frames; /* identities, delimiter, signature, header, parent, metadata, content, buffers */
    json_t *header, *content;
    const char *type, *id; /* msg_type and msg_id */
    double arrived;        /* dl_seconds() */
    int aborted;           /* an earlier one of the queue failed */
} jup_request;

/* Takes the frames, also on failure. NULL with *why set: malformed, or the signature is wrong. */
jup_request *jup_request_read(jup_signer *s, int channel, jup_frame *frames, int n, const char **why);
jup_request *jup_request_ref(jup_request *r);
void jup_request_unref(jup_request *r); /* NULL is fine */

/* Fields of a request's content; false, "", 0 and NULL when absent or of another type. */
int jup_content_bool(const jup_request *r, const char *name, int otherwise);
const char *jup_content_text(const jup_request *r, const char *name, size_t *len);
long jup_content_int(const jup_request *r, const char *name, long otherwise);

/* ---------------------------------------------------------------- messages */

enum { JUP_OUT_FRAMES = 6 };
typedef struct jup_writer {
    jup_signer *signer;
    char session[33];
    long sent;
    char header[512], signature[JUP_SIGNATURE];
} jup_writer;
/* Gives the session its random name. */
void jup_writer_init(jup_writer *w, jup_signer *signer);
/* The six frames of a message from the delimiter on. They borrow content, metadata (NULL: {}) and the request, and
 * the writer's own buffers until the next call. */
void jup_write(jup_writer *w, const jup_request *parent, const char *type, jup_frame metadata, jup_frame content,
               jup_frame out[JUP_OUT_FRAMES]);

/* A JSON string of any bytes: what is no UTF-8 is replaced. NULL without memory. */
json_t *jup_text(const char *s, size_t n);
/* Bytes at the end of s that begin a character not yet whole. */
size_t jup_text_unfinished(const char *s, size_t n);
/* Positions of the protocol count Unicode code points; ours count bytes. Beyond the end: the end. */
size_t jup_bytes_of(const char *s, size_t n, long points);
long jup_points_of(const char *s, size_t bytes);
