/*
 * A MOCK of NVIDIA's management library: two made-up GPUs, no driver behind them.
 * The names, types and meanings of the functions are those of the NVML API reference
 * (docs.nvidia.com/deploy/nvml-api); what is not here is not supported.
 *
 * The file that EBB_NVML_MOCK names holds the process id that uses GPU 0; 0 for none,
 * and -1 lets the driver hang.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
enum { UTILIZATION_SAMPLES = 1, UNSIGNED_INT = 1, SAMPLES = 4 };

typedef struct { unsigned number; } *nvmlDevice_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } nvmlMemory_v2_t;
typedef struct { unsigned gpu, memory; } nvmlUtilization_t;
typedef union { unsigned uiVal; unsigned long long ullVal; } nvmlValue_t;
typedef struct { unsigned long long timeStamp; nvmlValue_t sampleValue; } nvmlSample_t;
typedef struct {
	unsigned pid;
	unsigned long long usedGpuMemory;
	unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;
typedef struct {
	unsigned pid;
	unsigned long long timeStamp;
	unsigned smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;

static struct { unsigned number; } devices[2] = { { 0 }, { 1 } };
static const unsigned long long GIB = 1ull << 30;

static int user(void)
{
	const char *name = getenv("EBB_NVML_MOCK");
	FILE *file = name ? fopen(name, "r") : 0;
	int pid = 0;
	if (file && fscanf(file, "%d", &pid) != 1)
		pid = 0;
	if (file)
		fclose(file);
	while (pid == -1)
		pause();
	return pid;
}

/* Microseconds of the wall clock. */
static unsigned long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	return time.tv_sec * 1000000ull + time.tv_nsec / 1000;
}

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }

int nvmlSystemGetDriverVersion(char *version, unsigned length)
{
	snprintf(version, length, "550.00");
	return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	*count = 2;
	return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device)
{
	if (index > 1)
		return INVALID_ARGUMENT;
	*device = (nvmlDevice_t)&devices[index];
	return SUCCESS;
}

int nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length)
{
	snprintf(name, length, "Mock GPU");
	return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	memory->total = 80 * GIB;
	memory->used = device->number ? 0 : 30 * GIB;
	memory->reserved = 0;
	memory->free = memory->total - memory->used;
	return SUCCESS;
}

/* GPU 0 keeps samples, 50 % of the time busy; GPU 1 only tells how it is now. */
int nvmlDeviceGetSamples(nvmlDevice_t device, unsigned type, unsigned long long seen,
			 unsigned *value_type, unsigned *count, nvmlSample_t *samples)
{
	if (type != UTILIZATION_SAMPLES || device->number)
		return NOT_SUPPORTED;
	*value_type = UNSIGNED_INT;
	*count = SAMPLES;
	for (unsigned i = 0; samples && i < SAMPLES; i++) {
		samples[i].timeStamp = now() - SAMPLES + i + 1;
		samples[i].sampleValue.uiVal = i % 2 ? 100 : 0;
	}
	return user() >= 0 ? SUCCESS : NOT_SUPPORTED;
}

int nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
	rates->gpu = rates->memory = 0;
	return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *infos)
{
	unsigned room = *count;
	int pid = device->number ? 0 : user();

	*count = pid > 0;
	if (!*count)
		return SUCCESS;
	if (!infos || room < 1)
		return INSUFFICIENT_SIZE;
	memset(infos, 0, sizeof(*infos));
	infos->pid = pid;
	infos->usedGpuMemory = 20 * GIB;
	return SUCCESS;
}

int nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
				    unsigned *count, unsigned long long seen)
{
	int pid = device->number ? 0 : user();

	if (pid <= 0)
		return NOT_FOUND;
	*count = 1;
	if (samples) {
		memset(samples, 0, sizeof(*samples));
		samples->pid = pid;
		samples->timeStamp = now();
		samples->smUtil = 40;
	}
	return SUCCESS;
}
