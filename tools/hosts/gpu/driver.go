// dra-driver for test hosts: publishes the devices of a host as NVIDIA's DRA driver does (names, bus addresses), and has
// the kubelet bring a variable and a device node for each device that a claim holds, so that a container can show what it
// was given. A container can set the variable itself; it cannot make the node.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

const (
	name = "gpu.nvidia.com"
	kind = "paictl.io/gpu"
)

type driver struct{}

func (driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	prepared := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		result := kubeletplugin.PrepareResult{}
		for _, one := range claim.Status.Allocation.Devices.Results {
			if one.Driver == name {
				result.Devices = append(result.Devices, kubeletplugin.Device{
					Requests: []string{one.Request}, PoolName: one.Pool, DeviceName: one.Device,
					CDIDeviceIDs: []string{kind + "=" + one.Device},
				})
			}
		}
		prepared[claim.UID] = result
	}
	return prepared, nil
}

func (driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	done := map[types.UID]error{}
	for _, claim := range claims {
		done[claim.UID] = nil
	}
	return done, nil
}

func (driver) HandleError(_ context.Context, err error, message string) {
	log.Printf("%s: %v", message, err)
}

func (driver) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}

// describe writes for containerd what each device brings into a container.
func describe(count int) error {
	devices := []map[string]any{}
	for index := range count {
		devices = append(devices, map[string]any{
			"name": fmt.Sprintf("gpu-%d", index),
			"containerEdits": map[string]any{
				"env":         []string{fmt.Sprintf("GPU_%d=here", index)},
				"deviceNodes": []map[string]any{{"path": fmt.Sprintf("/dev/gpu-%d", index), "hostPath": "/dev/null"}},
			},
		})
	}
	text, err := json.Marshal(map[string]any{"cdiVersion": "0.6.0", "kind": kind, "devices": devices})
	if err != nil {
		return err
	}
	if err := os.MkdirAll("/var/run/cdi", 0o755); err != nil {
		return err
	}
	return os.WriteFile("/var/run/cdi/paictl.json", text, 0o644)
}

func pool(count int) resourceslice.Pool {
	devices := []resourceapi.Device{}
	for index := range count {
		bus, uuid := fmt.Sprintf("0000:%02x:00.0", index+1), fmt.Sprintf("GPU-%d", index)
		devices = append(devices, resourceapi.Device{
			Name: fmt.Sprintf("gpu-%d", index),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"pcieBusID": {StringValue: &bus}, "uuid": {StringValue: &uuid},
			},
		})
	}
	return resourceslice.Pool{Slices: []resourceslice.Slice{{Devices: devices}}}
}

func run() error {
	node, count, config := flag.String("node", "", ""), flag.Int("devices", 8, ""), flag.String("kubeconfig", "", "")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := describe(*count); err != nil {
		return err
	}
	rest, err := clientcmd.BuildConfigFromFlags("", *config)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return err
	}
	own := filepath.Join("/var/lib/kubelet/plugins", name)
	if err := os.MkdirAll(own, 0o755); err != nil {
		return err
	}
	helper, err := kubeletplugin.Start(ctx, driver{},
		kubeletplugin.DriverName(name), kubeletplugin.KubeClient(client), kubeletplugin.NodeName(*node),
		kubeletplugin.PluginDataDirectoryPath(own),
	)
	if err != nil {
		return err
	}
	defer helper.Stop()
	pools := map[string]resourceslice.Pool{*node: pool(*count)}
	if err := helper.PublishResources(ctx, resourceslice.DriverResources{Pools: pools}); err != nil {
		return err
	}
	log.Printf("%d devices", *count)
	<-ctx.Done()
	return nil
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}
