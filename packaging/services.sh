# The services of the packages under systemd, with all that their units forbid them. Run by boot.sh as root.
# shellcheck shell=sh
set -eux
hello() {
    [ "$(setpriv --reuid daemon --regid daemon --clear-groups carrick run -- /opt/hello_sctp)" = "hello on stream 3, PPID 60" ]
}
# The first program starts the daemon. A successor, and the daemon after a restart, serve as well.
systemctl is-active carrick-daemon.socket
if systemctl is-active carrick-daemon.service; then exit 1; fi
hello
systemctl is-active carrick-daemon.service
[ "$(ps -o user= -p "$(systemctl show --property MainPID --value carrick-daemon)")" != root ]
systemctl reload carrick-daemon.service
hello
systemctl restart carrick-daemon.service
hello

sed -i 's/^addresses = \["192.*/addresses = ["127.0.0.1"]/; s/^udp-port = 9899/udp-port = 9900/' /etc/carrick/stp.toml
sed -i 's/^#\(\[\[agents\]\]\|name = "pbx"\|key-file\)/\1/' /etc/carrick/simco.toml
(umask 027 && printf %064d 1 >/etc/carrick/keys/pbx.key && chgrp carrick /etc/carrick/keys/pbx.key)
systemctl start carrick-stp carrick-simco
key="--middlebox sctp://127.0.0.1 --name pbx --key-file /etc/carrick/keys/pbx.key"
# shellcheck disable=SC2086 # a list of options
for _ in $(seq 50); do
    carrick simco agent $key per --internal 10.0.0.1:5000 --external 192.0.2.1:6000 --ports 2 --lifetime 60 && break
    sleep 0.1
done
systemctl reload carrick-stp carrick-simco

# An upgrade restarts what runs; the rule is restored.
DEBIAN_FRONTEND=noninteractive dpkg --force-confold -i /opt/*.deb
for _ in $(seq 50); do
    # shellcheck disable=SC2086
    carrick simco agent $key list | grep '10.0.0.1:5000' && break
    sleep 0.1
done
hello
systemctl is-active carrick-daemon.service carrick-stp carrick-simco
[ "$(systemctl show --property NRestarts --value carrick-daemon carrick-stp carrick-simco | sort -u | xargs)" = 0 ]
DEBIAN_FRONTEND=noninteractive dpkg --purge carrick-simco carrick
[ -z "$(systemctl list-units --all --plain --no-legend 'carrick*')" ]
if pgrep -x carrick; then exit 1; fi
echo "services: passed"
