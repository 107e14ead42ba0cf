/* The functions of libpq that are used, and what the files that use them share. */
#pragma once

#include "track/server/pq.h"

#define DL_PQ_CALLS(X)                                                                                                 \
    X(connectdbParams)                                                                                                 \
    X(pingParams)                                                                                                      \
    X(conninfoParse)                                                                                                   \
    X(conninfoFree)                                                                                                    \
    X(freemem)                                                                                                         \
    X(setNoticeProcessor)                                                                                              \
    X(status)                                                                                                          \
    X(errorMessage)                                                                                                    \
    X(finish)                                                                                                          \
    X(sendQuery)                                                                                                       \
    X(getResult)                                                                                                       \
    X(consumeInput)                                                                                                    \
    X(isBusy)                                                                                                          \
    X(socket)                                                                                                          \
    X(resultStatus)                                                                                                    \
    X(resultErrorMessage)                                                                                              \
    X(nfields)                                                                                                         \
    X(clear)                                                                                                           \
    X(putCopyData)                                                                                                     \
    X(putCopyEnd)                                                                                                      \
    X(getCopyData)

typedef struct dl_pq_calls {
#define DL_PQ_MEMBER(name) __typeof__(PQ##name) *name;
    DL_PQ_CALLS(DL_PQ_MEMBER)
#undef DL_PQ_MEMBER
} dl_pq_calls;
extern dl_pq_calls dl_pq_call;

/* Records what the server, or libpq, says. */
dl_status dl_pq_fail(const dl_pq *k, const char *doing, const PGresult *r);
/* Sends statements; waits until a result can be read; reads what is left of their results, unless st is a failure. */
dl_status dl_pq_begin(dl_pq *k, const char *doing, const char *sql);
dl_status dl_pq_wait(dl_pq *k, const char *doing); /* for more of one */
dl_status dl_pq_await(dl_pq *k, const char *doing);
dl_status dl_pq_finish(dl_pq *k, const char *doing, dl_status st);
