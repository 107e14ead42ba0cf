/* The functions of the rows of checks.def. */
#ifndef DLSH_DEBUG_DOCTOR_CHECKS_H
#define DLSH_DEBUG_DOCTOR_CHECKS_H

#include "debug/doctor/doctor.h"

#define CHECK(function, name) dl_status dlsh_check_##function(dlsh_examination *e);
#define SYMPTOM(function, name) CHECK(function, name)
#include "debug/doctor/checks.def"

#endif
