/* JSON lines on standard output. */
#ifndef OUTPUT_H
#define OUTPUT_H

#include <stdint.h>

/* Returns the milliseconds since the program started. */
uint64_t elapsed_ms(void);

/* Prints one line: the event, the time and these fields in JSON. An empty format adds none. */
void emit(const char *event, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
