/* Text for those who cannot see a picture: descriptions within SVG, and alternative texts of images. */
#include <string.h>

#include "view/rich/html.h"

static const char label[] = " role=\"img\" aria-label=\"";

void dlsh_svg_describe(dlsh_buf *svg, const char *text) {
    const char *begin = dlsh_buf_text(svg), *root = strstr(begin, "<svg"), *open = root ? strchr(root, '>') : NULL;
    if (!open) return;
    dlsh_buf b = {0};
    dlsh_buf_add(&b, begin, (size_t)(root + 4 - begin));
    dlsh_buf_puts(&b, label);
    dlsh_html_puts(&b, text);
    dlsh_buf_puts(&b, "\"");
    dlsh_buf_add(&b, root + 4, (size_t)(open + 1 - root - 4));
    dlsh_buf_puts(&b, "<title>");
    dlsh_html_puts(&b, text);
    dlsh_buf_puts(&b, "</title>");
    const char *old = strstr(open, "<title>"), *end = old ? strstr(old, "</title>") : NULL; /* the drawing program's */
    if (end) {
        dlsh_buf_add(&b, open + 1, (size_t)(old - open - 1));
        open = end + strlen("</title>") - 1;
    }
    dlsh_buf_puts(&b, open + 1);
    dlsh_buf_free(svg);
    *svg = b;
}

void dlsh_html_picture(dlsh_buf *b, const dlsh_buf *svg) {
    const char *at = strstr(svg->n ? svg->s : "", label);
    dlsh_buf_puts(b, "<img src=\"data:image/svg+xml;base64,");
    dlsh_base64(b, svg->s, svg->n);
    dlsh_buf_puts(b, "\" alt=\"");
    if (at) dlsh_buf_add(b, at + sizeof label - 1, strcspn(at + sizeof label - 1, "\"")); /* escaped as it stands */
    dlsh_buf_puts(b, "\"/>");
}
