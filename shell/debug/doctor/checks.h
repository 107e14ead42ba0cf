/* The functions of the rows of checks.def. */
#pragma once

#include "debug/doctor/doctor.h"

#define CHECK(function, name, fails, passes) dl_status dlsh_check_##function(dlsh_examination *e);
#define TRIAL(...) CHECK(__VA_ARGS__)
#define SYMPTOM(...) CHECK(__VA_ARGS__)
#include "debug/doctor/checks.def"
