# One core, all the time.
while :; do :; done
