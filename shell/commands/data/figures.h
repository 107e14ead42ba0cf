/* Figures of data sets. */
#pragma once

#include "lang/command.h"

/* A list of records, one for each input and target of the splits from..to: mean, std, min, max of what is finite, and
 * how many elements are 0, NaN and infinite. All samples are read. VOID: a recorded failure. */
dlsh_value dlsh_data_figures(dl_dataset *d, int from, int to);
/* These as a table. */
dl_status dlsh_show_data_figures(struct dlsh_sink *sink, dlsh_value rows);
