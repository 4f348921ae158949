#!/bin/sh
# The part of test.sh with a service manager: boots systemd in namespaces, with the packages installed, and runs
# services.sh there.
#
#   boot.sh ROOT WORK    ROOT is the unpacked system, which stays as it is; WORK has packages/ and hello_sctp
set -eu
lower=$1
work=$2
root=$work/root
packaging=$(realpath "$(dirname "$0")")
ip link set lo up
mkdir -p "$work/upper" "$work/overlay" "$root"
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$work/upper,workdir=$work/overlay" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
# The devices that PrivateDevices= passes on.
mkdir "$root/dev/pts" "$root/dev/shm" "$root/dev/mqueue" "$root/dev/hugepages"
mount -t devpts devpts "$root/dev/pts"
mount -t tmpfs tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
cp "$work"/packages/*.deb "$work/hello_sctp" "$packaging/services.sh" "$root/opt/"
chroot "$root" sh -c 'DEBIAN_FRONTEND=noninteractive dpkg -i /opt/*.deb' >"$work/dpkg.log" 2>&1

units=$root/etc/systemd/system
cat >"$units/services.service" <<'END'
[Service]
Type=oneshot
ExecStart=/bin/sh /opt/services.sh
ExecStopPost=/bin/systemctl --force --force poweroff
StandardOutput=file:/opt/output
StandardError=file:/opt/output
TimeoutStartSec=200
END
mkdir -p "$units/multi-user.target.wants"
ln -s ../services.service "$units/multi-user.target.wants/"
# Services remount the root directory, which chroot alone does not change.
cd "$root"
mkdir opt/host
pivot_root . opt/host
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot . \
    sh -c 'umount -l /opt/host; exec /lib/systemd/systemd --system --unit=multi-user.target --show-status=no --log-target=null'
