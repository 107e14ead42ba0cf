/* The recording of a thread: calls of rows as dispatch ran them, and the gradient rules between them. */
#pragma once

#include "core/op.h"

typedef struct dl_calls dl_calls;

/* Where this thread records; NULL: it does not. */
extern __thread dl_calls *dl_recorder;

/* A finished call. Failures end the recording and are forgotten: what runs must not depend on it. */
void dl_recording_add(const dl_call *c);
/* A gradient rule that has run: b->gin are the gradients it made. */
void dl_recording_add_rule(const dl_back *b);
