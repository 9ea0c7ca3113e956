# A thousand processes of a few milliseconds each, then one now and then.
for _ in $(seq 1000); do /bin/true; done
while sleep 1; do /bin/true; done
