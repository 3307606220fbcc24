/* What the headers know of the compiler and the processor. */
#ifndef QTHREAD_COMMON_H
#define QTHREAD_COMMON_H

/* Bit fields begin at the lowest bit on all machines that Vicus runs on. */
#define BITFIELD_ORDER_REVERSE

#if defined(__cplusplus) && !defined(restrict)
#define restrict __restrict
#endif

#define QTHREAD_TRAP() __builtin_trap()

#define QTHREAD_UNSUPPORTED 0
#define QTHREAD_IA32 1
#define QTHREAD_AMD64 2
#define QTHREAD_POWERPC32 6
#define QTHREAD_POWERPC64 7
#define QTHREAD_ARM 12
#define QTHREAD_ARMV8_A64 13
#define QTHREAD_RISCV 14

#if defined(__x86_64__)
#define QTHREAD_ASSEMBLY_ARCH QTHREAD_AMD64
#elif defined(__aarch64__)
#define QTHREAD_ASSEMBLY_ARCH QTHREAD_ARMV8_A64
#elif defined(__riscv)
#define QTHREAD_ASSEMBLY_ARCH QTHREAD_RISCV
#elif defined(__powerpc64__)
#define QTHREAD_ASSEMBLY_ARCH QTHREAD_POWERPC64
#else
#define QTHREAD_ASSEMBLY_ARCH QTHREAD_UNSUPPORTED
#endif

#endif
