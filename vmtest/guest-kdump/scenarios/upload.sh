ip link set eth0 up
ip address add 10.0.2.15/24 dev eth0
export AWS_ENDPOINT_URL="$endpoint" AWS_ACCESS_KEY_ID=AKIATEST AWS_SECRET_ACCESS_KEY=the-secret-key AWS_REGION=us-east-1

# watch_peaks: writes the peak memory of bigiron's processes to /tmp/peak.PID until /tmp/ended exists. The one that has
# the network is called exe.
watch_peaks() {
    while [ ! -e /tmp/ended ]; do
        for pid in $(pidof bigiron exe); do
            peak=$(sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/$pid/status")
            [ -z "$peak" ] || echo "$peak" >"/tmp/peak.$pid"
        done
        sleep 0.1
    done
}

case $endpoint in
https:*) SSL_CERT_FILE=/dev/null run untrusted /bigiron dump --json /proc/vmcore "$object" ;;
esac
page_cache
memory
watch_peaks &
mark dump
# shellcheck disable=SC2086  # options, from the plan
run dump /bigiron dump --json $how /proc/vmcore "$object"
: >/tmp/ended
wait
for file in /tmp/peak.*; do
    say "{\"peak_kib\": $(cat "$file")}"
done
