/* Addresses of stores on servers: how they are told from paths, shown without passwords, and which mirror is theirs. */
#define _GNU_SOURCE /* memrchr, strcasestr */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "track/server/server.h"

static const char *const schemes[] = {"postgresql://", "postgres://"};

bool dl_server_is_address(const char *path) {
    for (size_t i = 0; path && i < sizeof schemes / sizeof *schemes; i++)
        if (!strncasecmp(path, schemes[i], strlen(schemes[i]))) return true;
    return false;
}

/* The next address within a text; its end is the end of the text. */
static const char *find_address(const char *text) {
    for (; *text; text++)
        if (dl_server_is_address(text)) return text;
    return NULL;
}

static void append(char *out, long size, const char *from, size_t n) {
    size_t have = strlen(out);
    snprintf(out + have, (size_t)size - have, "%.*s", (int)n, from);
}

void dl_server_hide(const char *path, const char *mask, char *out, long size) {
    *out = 0;
    const char *address = find_address(path);
    if (!address) return append(out, size, path, strlen(path));
    const char *user = strstr(address, "://") + 3, *question = strchr(user, '?');
    size_t hosts = question ? (size_t)(question - user) : strlen(user);
    const char *last = memrchr(user, '@', hosts), *colon = last ? memchr(user, ':', (size_t)(last - user)) : NULL;
    const char *rest = colon ? last : user;
    append(out, size, path, (size_t)((colon ? colon : user) - path));
    if (colon && *mask) append(out, size, ":", 1), append(out, size, mask, strlen(mask));
    static const char key[] = "password=";
    const char *secret = strcasestr(rest, key);
    if (!secret) return append(out, size, rest, strlen(rest));
    append(out, size, rest, (size_t)(secret - rest) + sizeof key - 1);
    append(out, size, mask, strlen(mask));
    secret += sizeof key - 1;
    secret += strcspn(secret, "&");
    append(out, size, secret, strlen(secret));
}

void dl_store_shown(const char *path, char *out, long size) {
    if (size > 0) dl_server_hide(path ? path : "", "***", out, size);
}

int dl_store_on_server(const char *path) { return dl_server_is_address(path); }

dl_status dl_server_mirror(const char *address, char path[4096]) {
    char shown[DL_PQ_SHOWN], sha[65], folder[3900];
    dl_store_shown(address, shown, sizeof shown);
    dl_sha256_hex(shown, strlen(shown), sha);
    DL_TRY(dl_state_folder("stores", folder, sizeof folder));
    const char *name = strstr(address, "://") + 3, *slash = strchr(name, '/');
    int n = slash ? 0 : -1;
    while (n >= 0 && n < 40 && (isalnum((unsigned char)slash[1 + n]) || strchr("_-", slash[1 + n])) && slash[1 + n])
        n++;
    snprintf(path, 4096, "%s/%.*s-%.12s.db", folder, n > 0 ? n : 6, n > 0 ? slash + 1 : "server", sha);
    return DL_OK;
}
