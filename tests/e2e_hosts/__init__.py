"""On real test hosts (tools/hosts): what needs systemd, sshd, containerd and kubelet on machines of their own."""
