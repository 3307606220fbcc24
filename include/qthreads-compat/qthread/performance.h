/* The performance counters of Qthreads, which are off: nothing is counted. */
#ifndef QTHREAD_PERFORMANCE_H
#define QTHREAD_PERFORMANCE_H

#include "common.h"

#define QTPERF_ASSERT(...)
#define QTPERF_WARN(...)

#endif
