/* The program: runs cases, each in a separate process, and prints their steps. */
#include "probe.h"

#include <sys/mman.h>
#include <time.h>

enum { LIMIT = 25 /* seconds of a case */, MOST_STEPS = 400, MOST_JOBS = 16 };

static const struct probe_case *const groups[] = {
	naming_cases, connecting_cases, message_cases, ancillary_cases, many_cases, notification_cases, option_cases,
	sweep_cases, readiness_cases, ending_cases, process_cases, stream_cases, authentication_cases, address_cases,
	pointer_cases,
};

static const char *case_name;
static int output = STDOUT_FILENO;
static volatile sig_atomic_t broken_pipes;

static void count_broken_pipe(int signal)
{
	(void)signal;
	broken_pipes++;
}

/* Writes a line without stdio: a case can end by a signal at any time, and forks. */
static void print(const char *line)
{
	size_t length = strlen(line);
	while (length > 0) {
		ssize_t written = write(output, line, length);
		if (written < 0)
			_exit(3);
		line += written;
		length -= (size_t)written;
	}
}

void step(const char *name, const char *what, const char *result)
{
	static char names[MOST_STEPS][64];
	static int number;
	for (int i = 0; i < number; i++)
		if (strcmp(names[i], name) == 0)
			print(text("%s/%s: the name of this step occurs twice\n", case_name, name));
	if (number < MOST_STEPS)
		snprintf(names[number++], sizeof(names[0]), "%s", name);
	print(text("%s/%s: %s = %s\n", case_name, name, what, result));
}

static const char *with_signal(const char *result)
{
	bool is_broken = broken_pipes > 0;
	broken_pipes = 0;
	return is_broken ? text("%s SIGPIPE", result) : result;
}

long call(const char *name, const char *what, long result)
{
	int error = errno;
	step(name, what, with_signal(result < 0 ? text("-1 %s", error_name(error)) : text("%ld", result)));
	errno = error;
	return result;
}

int made(const char *name, const char *what, int descriptor)
{
	int error = errno;
	step(name, what, descriptor < 0 ? text("-1 %s", error_name(error)) : "a descriptor");
	return descriptor;
}

int set(const char *name, const char *what, int result)
{
	return (int)call(name, what, result);
}

void got(const char *name, const char *what, int result, socklen_t length, const char *fields)
{
	if (result < 0)
		step(name, what, text("-1 %s", error_name(errno)));
	else
		step(name, what, text("%d, %u bytes: %s", result, length, fields));
}

int get_int(const char *name, const char *what, int fd, int level, int option)
{
	int value = 0;
	socklen_t length = sizeof(value);
	errno = 0;
	int result = getsockopt(fd, level, option, &value, &length);
	got(name, what, result, length, result < 0 ? "" : text("%d", value));
	return value;
}

void fail(const char *what)
{
	step("set-up", what, text("-1 %s", error_name(errno)));
	_exit(1);
}

/* Runs a case in a child; its lines go to a file in memory. */
struct job {
	const struct probe_case *probe;
	int lines;
	pid_t child;
};

static struct job start(const struct probe_case *probe)
{
	struct job job = { probe, memfd_create("lines", MFD_CLOEXEC), 0 };
	if (job.lines < 0) {
		perror("memfd_create");
		exit(3);
	}
	job.child = fork();
	if (job.child < 0) {
		perror("fork");
		exit(3);
	}
	if (job.child > 0)
		return job;
	setpgid(0, 0);
	output = job.lines;
	case_name = probe->name;
	struct sigaction action = { .sa_handler = count_broken_pipe };
	sigaction(SIGPIPE, &action, NULL);
	alarm(LIMIT);
	probe->run();
	_exit(0);
}

static void finish(struct job *job)
{
	int status = 0;
	waitpid(job->child, &status, 0);
	/* Children that the case left. */
	kill(-job->child, SIGKILL);
	char buffer[4096];
	ssize_t length;
	lseek(job->lines, 0, SEEK_SET);
	while ((length = read(job->lines, buffer, sizeof(buffer) - 1)) > 0) {
		buffer[length] = 0;
		print(buffer);
	}
	close(job->lines);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		print(text("%s/hang: the case = did not end\n", job->probe->name));
	else if (WIFSIGNALED(status))
		print(text("%s/signal: the case = ended by signal %d\n", job->probe->name, WTERMSIG(status)));
}

static bool is_wanted(const char *name, char **wanted)
{
	if (*wanted == NULL)
		return true;
	for (; *wanted != NULL; wanted++)
		if (strncmp(name, *wanted, strlen(*wanted)) == 0)
			return true;
	return false;
}

int main(int arguments, char **argument)
{
	int jobs = 1, option;
	bool lists = false;
	while ((option = getopt(arguments, argument, "lj:")) != -1) {
		if (option == 'l')
			lists = true;
		else if (option == 'j' && atoi(optarg) >= 1 && atoi(optarg) <= MOST_JOBS)
			jobs = atoi(optarg);
		else {
			fprintf(stderr, "usage: probe [-l] [-j JOBS] [CASE...]   (-l lists the cases; CASE may be the beginning of names)\n");
			return 2;
		}
	}
	struct job running[MOST_JOBS];
	int first = 0, number = 0;
	for (size_t group = 0; group < sizeof(groups) / sizeof(groups[0]); group++) {
		for (const struct probe_case *probe = groups[group]; probe->name != NULL; probe++) {
			if (!is_wanted(probe->name, argument + optind))
				continue;
			if (lists) {
				puts(probe->name);
				continue;
			}
			if (number == jobs) {
				finish(&running[first]);
				first = (first + 1) % jobs;
				number--;
			}
			running[(first + number++) % jobs] = start(probe);
		}
	}
	for (; number > 0; number--, first = (first + 1) % jobs)
		finish(&running[first]);
	return 0;
}
