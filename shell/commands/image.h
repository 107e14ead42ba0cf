/* Pictures in a terminal and a notebook: image.c. */
#pragma once

#include "view/sink.h"

/* Shows pictures [n, h, w] or [n, c, h, w] as `img` does, with a caption each. */
dl_status dlsh_show_pictures(dlsh_sink *sink, const dl_tensor *pictures, const char *const *captions);
