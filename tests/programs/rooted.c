/* rooted FOLDER PROGRAM…: executes a program in a mount namespace of its own whose root is the folder, by pivot_root:
 * read-only, with a /tmp that nothing can be executed from, and without /proc. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DO(call)                           \
	do {                               \
		if (call) {                \
			perror(#call);     \
			return 1;          \
		}                          \
	} while (0)

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	DO(unshare(CLONE_NEWNS));
	DO(mount(0, "/", 0, MS_REC | MS_PRIVATE, 0));
	DO(mount(argv[1], argv[1], 0, MS_BIND, 0));
	DO(chdir(argv[1]));
	mkdir("old", 0755);
	mkdir("tmp", 0755);
	DO(mount("tmp", "tmp", "tmpfs", MS_NOEXEC, 0));
	DO(syscall(SYS_pivot_root, ".", "old"));
	DO(chdir("/"));
	DO(umount2("/old", MNT_DETACH));
	DO(mount(0, "/", 0, MS_REMOUNT | MS_BIND | MS_RDONLY, 0));
	execv(argv[2], argv + 2);
	perror("execv");
	return 1;
}
