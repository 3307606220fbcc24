/* Calls of the system that may block. */
#ifndef QTHREAD_IO_H
#define QTHREAD_IO_H

#include "macros.h"

Q_STARTCXX
/* Between these two, the calling thread may block without holding up the tasks of its shepherd that have not begun. */
void qt_begin_blocking_action(void);
void qt_end_blocking_action(void);
Q_ENDCXX

#endif
