/* Datasets of text: the two kinds that "text" opens. */
#pragma once

#include "data/data.h"

/* Windows over a stream of tokens. t NULL: the file has tokens. */
dl_status dl_text_windows(const dl_data_args *a, dl_dataset *d, const dl_tokenizer *t);
/* Texts of a table with labels. */
dl_status dl_text_labelled(const dl_data_args *a, dl_dataset *d, const dl_tokenizer *t);
