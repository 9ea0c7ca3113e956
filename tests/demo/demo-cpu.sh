# Uses one core all the time.
while :; do :; done
