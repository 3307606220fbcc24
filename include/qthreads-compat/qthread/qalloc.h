/* Memory in a file: blocks that are there again when the file is loaded at the same address. */
#ifndef QALLOC_H
#define QALLOC_H

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mapinfo_s mapinfo_t;
typedef struct dynmapinfo_s dynmapinfo_t;

/* A file of so many bytes for blocks of one size, or of any size. It is mapped at `addr`, or anywhere if that is null. Null if it fails. */
void *qalloc_makestatmap(const off_t filesize, void *addr, const char *filename, size_t itemsize, const size_t streams);
void *qalloc_makedynmap(const off_t filesize, void *addr, const char *filename, const size_t streams);
/* Where it was mapped before. */
void *qalloc_loadmap(const char *filename);
/* Writes all maps to their files. */
void qalloc_checkpoint(void);
/* The same, and unmaps them. */
void qalloc_cleanup(void);

void *qalloc_statmalloc(mapinfo_t *map);
void *qalloc_dynmalloc(dynmapinfo_t *map, size_t size);
void *qalloc_malloc(void *map, size_t size);
void qalloc_statfree(void *block, mapinfo_t *map);
void qalloc_dynfree(void *block, dynmapinfo_t *map);
void qalloc_free(void *block, void *map);

#ifdef __cplusplus
}
#endif

#endif
