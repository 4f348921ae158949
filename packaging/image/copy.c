/*
 * Copies the command and the preload library of the image, which has no other program, to a directory: a volume that
 * the containers of a pod share.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

static int copy(const char *name, const char *directory)
{
	char from[64], to[4096], old[4096 + 4];
	struct stat file;
	snprintf(from, sizeof(from), "/opt/carrick/%s", name);
	snprintf(to, sizeof(to), "%s/%s", directory, name);
	snprintf(old, sizeof(old), "%s.new", to);
	int in = open(from, O_RDONLY);
	if (in < 0 || fstat(in, &file) != 0) {
		perror(from);
		return 1;
	}
	/* A program that runs from an older copy keeps it. */
	int out = open(old, O_WRONLY | O_CREAT | O_TRUNC, 0755);
	if (out < 0) {
		perror(old);
		return 1;
	}
	for (off_t left = file.st_size; left > 0;) {
		ssize_t copied = sendfile(out, in, NULL, left);
		if (copied <= 0) {
			perror(to);
			return 1;
		}
		left -= copied;
	}
	if (close(out) != 0 || rename(old, to) != 0) {
		perror(to);
		return 1;
	}
	close(in);
	return 0;
}

int main(int count, char **arguments)
{
	if (count != 2) {
		fprintf(stderr, "usage: copy DIRECTORY\n");
		return 2;
	}
	return copy("carrick", arguments[1]) || copy("libcarrick_preload.so", arguments[1]);
}
