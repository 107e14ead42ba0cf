/* What training commands say of a training that a breakpoint stopped. */
#pragma once

#include "lang/session.h"

/* Was it stopped by one? Says which, at which step, and how to go on. */
int dlsh_training_stopped(dlsh_session *s, struct dlsh_sink *sink, dl_trainer *t);
