/* SHA-256 that allocates nothing: OpenSSL's SHA256() crashes when malloc fails under it. */
#pragma once

#define OPENSSL_SUPPRESS_DEPRECATED /* SHA256_Init and its kin */
#include <openssl/sha.h>

static inline void dlsh_sha256(const void *data, size_t n, unsigned char sum[SHA256_DIGEST_LENGTH]) {
    SHA256_CTX c;
    SHA256_Init(&c);
    SHA256_Update(&c, data, n);
    SHA256_Final(sum, &c);
}
