/* The functions of the rows of checks.def. */
#pragma once

#include "debug/doctor/doctor.h"

#define CHECK(function, name) dl_status dlsh_check_##function(dlsh_examination *e);
#define TRIAL(function, name) CHECK(function, name)
#define SYMPTOM(function, name) CHECK(function, name)
#include "debug/doctor/checks.def"
