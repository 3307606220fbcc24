/* A function of each pair of elements of two arrays. */
#ifndef QTHREAD_ALLPAIRS_H
#define QTHREAD_ALLPAIRS_H

#include "macros.h"
#include "qarray.h"

Q_STARTCXX

typedef void (*dist_f)(const void *unit1, const void *unit2);
typedef void (*dist_out_f)(const void *unit1, const void *unit2, void *restrict outstore);

void qt_allpairs(const qarray *array1, const qarray *array2, dist_f distfunc);
/* The result for elements i and j goes to `output[i]`, at j times `outsize` bytes. */
void qt_allpairs_output(const qarray *array1, const qarray *array2, dist_out_f distfunc, void *restrict *restrict output,
                        size_t outsize);

Q_ENDCXX

#endif
