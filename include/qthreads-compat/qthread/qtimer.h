/* Stop watches. */
#ifndef QTHREAD_TIMER
#define QTHREAD_TIMER

#include "macros.h"

Q_STARTCXX

typedef struct qtimer_s *qtimer_t;

/* A number by chance. */
unsigned long qtimer_fastrand(void);
/* Seconds since some moment, and the smallest difference between two of them. */
double qtimer_wtime(void);
double qtimer_res(void);

qtimer_t qtimer_create(void);
void qtimer_destroy(qtimer_t timer);
void qtimer_start(qtimer_t timer);
void qtimer_stop(qtimer_t timer);
/* From the last start to the last stop. */
double qtimer_secs(qtimer_t timer);

Q_ENDCXX

#endif
