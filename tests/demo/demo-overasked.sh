# Requests 16 cores and 32 GiB; uses 128 MiB and a third of a core.
head -c 128M /dev/zero | tail -c 128M | while :; do
  for _ in $(seq 30000); do :; done
  sleep 0.2
done
