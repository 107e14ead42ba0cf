/* Loss scaling in loops written by hand (scaler.c). */
#pragma once

#include "lang/session.h"

/* self: dl_scaler *. */
extern const dlsh_class dlsh_scaler_class;
/* A handle over a copy; VOID: a recorded failure. */
dlsh_value dlsh_scaler_value(dl_scaler is);
/* The function grad_scaler(...). */
dl_status dlsh_grad_scaler_run(const dlsh_args *a, dlsh_value *result);
