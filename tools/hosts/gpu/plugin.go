// nvidia-device-plugin for test hosts: tells kubelet of the GPUs on the host's PCI bus, as NVIDIA's own does; in
// containers it changes nothing.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	resource = "nvidia.com/gpu"
	endpoint = "nvidia-stand-in.sock"
	vendor   = "0x10de"
)

type plugin struct {
	api.UnimplementedDevicePluginServer
	devices []*api.Device
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (p *plugin) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	if err := stream.Send(&api.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (p *plugin) Allocate(_ context.Context, asked *api.AllocateRequest) (*api.AllocateResponse, error) {
	answer := &api.AllocateResponse{}
	for range asked.ContainerRequests {
		answer.ContainerResponses = append(answer.ContainerResponses, &api.ContainerAllocateResponse{})
	}
	return answer, nil
}

func found() []*api.Device {
	root := strings.TrimSuffix(os.Getenv("NVIDIA_DRIVER_ROOT_IN_CONTAINER"), "/")
	if root == "" {
		root = "/driver-root"
	}
	paths, _ := filepath.Glob(root + "/sys/bus/pci/devices/*/vendor")
	devices := []*api.Device{}
	for _, path := range paths {
		if said, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(said)) == vendor {
			devices = append(devices, &api.Device{ID: fmt.Sprintf("GPU-%d", len(devices)), Health: api.Healthy})
		}
	}
	return devices
}

func run() error {
	own := filepath.Join(api.DevicePluginPath, endpoint)
	os.Remove(own)
	listener, err := net.Listen("unix", own)
	if err != nil {
		return err
	}
	p := &plugin{devices: found()}
	log.Printf("%d devices", len(p.devices))
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, p)
	go server.Serve(listener)
	kubelet, err := grpc.NewClient("unix://"+api.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	wish := &api.RegisterRequest{Version: api.Version, Endpoint: endpoint, ResourceName: resource}
	if _, err = api.NewRegistrationClient(kubelet).Register(context.Background(), wish); err != nil {
		return err
	}
	for { // kubelet empties the folder when it starts: then this starts anew, too
		if _, err := os.Stat(own); err != nil {
			return err
		}
		time.Sleep(time.Second)
	}
}

func main() {
	log.Fatal(run())
}
