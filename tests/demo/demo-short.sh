# Starts a thousand processes of a few milliseconds, then one from time to time.
for _ in $(seq 1000); do /bin/true; done
while sleep 1; do /bin/true; done
