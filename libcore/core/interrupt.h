/* Holding back the request to stop where work must not end half done. */
#ifndef DL_CORE_INTERRUPT_H
#define DL_CORE_INTERRUPT_H

/* Until a call with 0, dl_interrupt_get answers 0 in this thread; the request is not forgotten. Returns the former
 * setting. */
int dl_interrupt_hold(int on);

#endif
