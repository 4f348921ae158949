#include "output.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

static uint64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint64_t started;

__attribute__((constructor)) static void start(void)
{
	started = now_ms();
}

uint64_t elapsed_ms(void)
{
	return now_ms() - started;
}

void emit(const char *event, const char *format, ...)
{
	va_list rest;
	printf("{\"event\":\"%s\",\"ms\":%llu", event, (unsigned long long)elapsed_ms());
	if (*format) {
		putchar(',');
		va_start(rest, format);
		vprintf(format, rest);
		va_end(rest);
	}
	puts("}");
	fflush(stdout);
}
