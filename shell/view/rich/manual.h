/* Pages of the manual, which are laid out as text, in the forms that notebooks show. */
#pragma once

#include "view/sink.h"

/* Appends the page as HTML, as Markdown. */
void dlsh_manual_html(dlsh_buf *out, const char *page, size_t n);
void dlsh_manual_markdown(dlsh_buf *out, const char *page, size_t n);
